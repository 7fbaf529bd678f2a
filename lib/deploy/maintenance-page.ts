/*
 * The page of svc for a project in maintenance. It loads nothing from elsewhere, so that it works while the site does
 * not.
 */

const escapes: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/** Returns a complete HTML page with the name of the project and the reason. Pure. */
export function maintenancePage({ name, reason }: { name: string; reason: string | null }): string {
  const title = `${escape(name)} is in maintenance`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>${title}</title>
<style>
body { margin: 15vh auto; padding: 0 1.5rem; max-width: 36rem; font: 1.1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) { body { background: #16181d; color: #e8e8ea; } }
</style>
</head>
<body>
<main>
<h1>${title}</h1>
${reason === null ? '' : `<p>${escape(reason)}</p>\n`}<p>Please try again later.</p>
</main>
</body>
</html>
`
}

function escape(text: string): string {
  return text.replace(/[&<>"]/g, found => escapes[found] as string)
}
