# complete.zsh FOLDER LINE: what zsh offers at the end of LINE with the completion functions in
# FOLDER, a word a line. Run it by `zsh -f`.
zmodload zsh/zpty
zpty shell zsh -f -i
# Wait for TEXT from the shell. What is typed before stty is read comes back as an echo, so TEXT is not
# in it.
await() { local line; while zpty -r shell line; do [[ $line == *$1* ]] && return; done }
zpty -w shell "PS1= PS2=; stty -echo; fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -D -u"
zpty -w shell 'compadd() {
	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
	local -a found
	builtin compadd -A found "$@"
	print -rl -- "offered "$^found
	builtin compadd "$@"
}
finish() { compstate[insert]= compstate[list]=; print finished }
comppostfuncs=(finish)
zstyle ":completion:*" insert-tab false
bindkey "^I" complete-word
print "be""gin"'
await begin
zpty -w -n shell "$2"$'\t'
while zpty -r shell line; do
	line=${line//$'\r'/}
	[[ $line == *finished* ]] && break
	[[ $line == *offered\ * ]] && print -r -- "${${line##*offered }%$'\n'}"
done
zpty -d shell
