import { publicUrl } from '../../dom/address.js'
import { html, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { quoted } from './quoted.js'

/** The usual output directory of build tools; the reader replaces it if necessary. */
const usualOutput = 'dist'

/**
 * Returns the commands that set up a repository and deploy its build. They must run at the top of the repository:
 * `svc.config.json` belongs there, not among the served files. `token` is the real token for copying, or a masked one
 * for display. It is passed through a pipe from a shell builtin, so that no process list shows it.
 */
export function pushCommand(project: { id: string }, server: string, token: string): string {
  return [
    `printf %s ${quoted(token)} |`,
    `  svc init --server ${quoted(server)} --project ${quoted(project.id)} --out ${usualOutput} --token -`,
    'svc push'
  ].join('\n')
}

/** Stands for the user's own token if the panel does not know the token of the project. */
export const ownToken = 'YOUR-TOKEN'

/** Says which token a command contains. The server tells the token of a project to admins only. */
export function tokenHint({ token }: { token: string | null }): string {
  return token === null
    ? t('Replace YOUR-TOKEN with your own token.')
    : t('The copied text contains the deploy token of the project.')
}

/** Returns the server address for commands: its public address if known, else the one of this page's base. */
export function serverAddress(base: string): string {
  return publicUrl() ?? base.replace(/\/$/, '')
}

/** Returns the equivalent command without the svc client. Its exit code is 0 only if the deployment succeeds. */
export function curlCommand(project: { id: string }, server: string, token: string): string {
  return [
    `printf %s ${quoted(`Authorization: Bearer ${token}`)} |`,
    `  curl --no-buffer --fail-with-body ${quoted(`${server}/api/deploy/upload`)} --header @- \\`,
    `  --form ${quoted(`projectId=${project.id}`)} --form ${quoted('file=@site.zip')} | tee site.ndjson`,
    `tail -n 1 site.ndjson | grep -q '"status":"success"'`
  ].join('\n')
}

/** Returns a command for display: lines break between words, and never after the hyphens of an option. */
export function commandView(command: string): Template {
  return html`<pre>${command.split(/( |\n)/).map(word => (/\s/.test(word) ? word : html`<span>${word}</span>`))}</pre>`
}
