#!/usr/bin/env python3
"""What Kubernetes does with a manifest of an indexed Job, for tests without Kubernetes.

  kubernetes.py MANIFEST SECRETS CLAIMS

SECRETS has a folder for each Secret with its files, CLAIMS one for each PersistentVolumeClaim. Writes
pod.I.sh for each completion index I: it mounts the volumes of the pod on /mnt of the namespace in which it
runs, sets the variables of the container, and executes its command. Fields that are unknown here, and
names that do not fit together, are errors.
"""

import os
import shlex
import sys

import yaml

OBJECTS = {("v1", "Service"): {"spec"}, ("v1", "ConfigMap"): {"data"}, ("batch/v1", "Job"): {"spec"}}
FIELDS = {
    "service": {"clusterIP", "publishNotReadyAddresses", "selector"},
    "job": {"completionMode", "completions", "parallelism", "backoffLimit", "template"},
    "pod": {"subdomain", "restartPolicy", "containers", "volumes"},
    "container": {"name", "image", "command", "args", "env", "volumeMounts"},
    "mount": {"name", "mountPath"},
    "volume": {"name", "configMap", "secret", "persistentVolumeClaim"},
}


def demand(true, what):
    if not true:
        sys.exit(f"kubernetes.py: {what}")


def known(kind, fields):
    unknown = set(fields) - FIELDS[kind]
    demand(not unknown, f"{kind}: unknown fields {sorted(unknown)}")


def read(path):
    """The objects of a manifest: {(kind, name): object}."""
    objects = {}
    with open(path, encoding="utf-8") as file:
        for o in yaml.safe_load_all(file):
            more = OBJECTS[o["apiVersion"], o["kind"]]
            demand(set(o) == {"apiVersion", "kind", "metadata"} | more, f"{o['kind']}: fields {sorted(o)}")
            objects[o["kind"], o["metadata"]["name"]] = o
    return objects


def project(folder, files, mode):
    """Files as a volume has them: links to a folder that an update replaces."""
    data = os.path.join(folder, "..version")
    os.makedirs(data)
    os.symlink("..version", os.path.join(folder, "..data"))
    for name, text in files.items():
        with open(os.path.join(data, name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(os.path.join(data, name), mode)
        os.symlink(os.path.join("..data", name), os.path.join(folder, name))


def volume(v, objects, secrets, claims):
    """The folder of a volume."""
    known("volume", v)
    folder = os.path.abspath(os.path.join("volumes", v["name"]))
    if "configMap" in v:
        project(folder, objects["ConfigMap", v["configMap"]["name"]]["data"], 0o644)
    elif "secret" in v:
        source = os.path.join(secrets, v["secret"]["secretName"])
        files = {}
        for name in os.listdir(source):
            with open(os.path.join(source, name), encoding="utf-8") as file:
                files[name] = file.read()
        project(folder, files, v["secret"].get("defaultMode", 0o644))
    else:
        folder = os.path.abspath(os.path.join(claims, v["persistentVolumeClaim"]["claimName"]))
        demand(os.path.isdir(folder), f"no claim {folder}")
    return folder


def main():
    manifest, secrets, claims = sys.argv[1:]
    objects = read(manifest)
    (name, job), = ((n, o["spec"]) for (kind, n), o in objects.items() if kind == "Job")
    known("job", job)
    pod = job["template"]["spec"]
    known("pod", pod)
    demand(job["completionMode"] == "Indexed", "completionMode")
    demand(job["completions"] == job["parallelism"], "all ranks must run at the same time")
    demand(pod["restartPolicy"] in ("Never", "OnFailure"), "restartPolicy")
    service = objects["Service", pod["subdomain"]]["spec"]
    known("service", service)
    demand(service["clusterIP"] == "None", "only a headless Service gives each pod a name")
    demand(service["selector"] == {"job-name": name}, "the selector is not the Job's label")
    container, = pod["containers"]
    known("container", container)
    volumes = {v["name"]: volume(v, objects, secrets, claims) for v in pod["volumes"]}

    words = container["command"] + container.get("args", [])
    demand(all(isinstance(w, str) and "$(" not in w for w in words), "the command's words")
    lines = ["set -e", "mount -t tmpfs none /mnt"]
    for m in container["volumeMounts"]:
        known("mount", m)
        path = shlex.quote(m["mountPath"])
        demand(m["mountPath"].startswith("/mnt/"), "mountPath outside of /mnt")
        lines += [f"mkdir {path}", f"mount --bind {shlex.quote(volumes[m['name']])} {path}"]
    for index in range(job["completions"]):
        env = {e["name"]: e["value"] for e in container.get("env", [])}
        env |= {"JOB_COMPLETION_INDEX": str(index), "HOSTNAME": f"{name}-{index}", "PATH": os.environ["PATH"]}
        assignments = " ".join(shlex.quote(f"{k}={v}") for k, v in env.items())
        with open(f"pod.{index}.sh", "w", encoding="utf-8") as file:
            file.write("\n".join(lines + [f"exec env -i {assignments} {shlex.join(words)}"]) + "\n")


main()
