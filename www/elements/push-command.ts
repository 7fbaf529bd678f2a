import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'

/** Where most tools write their builds; the reader replaces it if theirs does not. */
const usualOutput = 'dist'

/**
 * The commands that set up a repository and deploy what it builds. They are run at its top: `svc.config.json` belongs
 * there, not among the files that are served. The token as given: real for copying, masked for showing. It goes through
 * a pipe from a builtin of the shell, so that no process list ever shows it.
 */
export function pushCommand(project: { id: string }, server: string, token: string): string {
  return [
    `printf %s ${quoted(token)} |`,
    `  svc init --server ${quoted(server)} --project ${quoted(project.id)} --out ${usualOutput} --token -`,
    'svc push'
  ].join('\n')
}

/** The address that commands name: the public one where the server knows it, else that of this page's base. */
export function serverAddress(base: string): string {
  const known = document.querySelector<HTMLMetaElement>('meta[name="svc-public-url"]')
  return known?.content ?? base.replace(/\/$/, '')
}

/** The same without the client. */
export function curlCommand(project: { id: string }, server: string, token: string): string {
  return [
    `printf %s ${quoted(`Authorization: Bearer ${token}`)} |`,
    `  curl --no-buffer --fail-with-body ${quoted(`${server}/api/deploy/upload`)} --header @- \\`,
    `  --form ${quoted(`projectId=${project.id}`)} --form ${quoted('file=@site.zip')}`
  ].join('\n')
}

/** A word as a POSIX shell takes it literally. */
function quoted(word: string): string {
  return /^[\w@%+=:,./•-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

/** A command to read: lines break between its words, and never after the hyphens of an option. */
export function commandView(command: string): Template {
  return html`<pre>${command.split(/( |\n)/).map(word => (/\s/.test(word) ? word : html`<span>${word}</span>`))}</pre>`
}
