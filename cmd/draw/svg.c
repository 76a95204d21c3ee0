/* Pieces of pictures. See svg.h. */
#include <stdlib.h>
#include <string.h>

#include "cmd/draw/svg.h"
#include "lib/data/files/outfile.h"

static const char common[] = "  svg { font: 12px system-ui, sans-serif } .ground { fill: #fff }\n"
                             "  text { fill: #222 } .title { font-weight: 600; font-size: 14px } "
                             ".note { fill: #666 }\n"
                             "  @media (prefers-color-scheme: dark) {\n"
                             "    .ground { fill: #16181c } text { fill: #ddd } "
                             ".note { fill: #999 } }\n";

void svg_text(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (*s == '<')
			fputs("&lt;", f);
		else if (*s == '>')
			fputs("&gt;", f);
		else if (*s == '&')
			fputs("&amp;", f);
		else if (*s == '"')
			fputs("&quot;", f);
		else if ((unsigned char)*s < ' ' || (unsigned char)*s >= 0x7f)
			fprintf(f, "\\x%02x", (unsigned char)*s);
		else
			fputc(*s, f);
	}
}

void svg_begin(FILE *f, double width, double height, const char *title, const char *style)
{
	fprintf(f,
	        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
	        "viewBox=\"0 0 %.0f %.0f\">\n<title>",
	        width, height, width, height);
	svg_text(f, title);
	fprintf(f,
	        "</title>\n<style>\n%s%s</style>\n<rect class=\"ground\" width=\"100%%\" "
	        "height=\"100%%\"/>\n",
	        common, style);
}

bool svg_end(FILE *f, char **text)
{
	fputs("</svg>\n", f);
	const bool failed = ferror(f) != 0;
	if (fclose(f) == 0 && !failed)
		return true;
	free(*text);
	*text = NULL;
	return false;
}

int svg_write(const char *path, const char *svg, size_t len, struct err *err)
{
	if (strcmp(path, "-") != 0)
		return outfile_put(path, svg, len, err);
	fwrite(svg, 1, len, stdout); /* flush_stdout reports an error */
	return 0;
}
