import { isLocalAddress } from '../../dom/address.js'
import { html, icon, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { commandView, quoted } from './project-fields.js'

interface InstallLine {
  /** Address of the server, as commands name it. */
  server: string
  /** What the machine needs: the client, or what `svc agent` runs. */
  edition: 'client' | 'agent'
  /** SHA-256 of the archive; null if it is not known. */
  sum: string | null
  onCopy?: () => void
}

/** Returns the line that installs svc from this server, and what a careful reader compares. */
export function installView({ server, edition, sum, onCopy = () => {} }: InstallLine): Template {
  const line = `curl -fsSL ${quoted(`${server}/install.sh`)} | sh${edition === 'agent' ? ' -s agent' : ''}`
  return html`
    <div class="command">${commandView(line)}<svc-copy .text="${line}" @click="${onCopy}"></svc-copy></div>
    ${sum === null ? null : html`<p class="small muted">${t('It installs for your user and checks the archive. SHA-256:')} <code translate="no">${sum}</code></p>`}
    ${localWarning(server)}`
}

/** Says that other machines do not reach the address in a command; null if they may. */
function localWarning(server: string): Template | null {
  if (!isLocalAddress(server)) return null
  return html`<p class="warning">${icon('warning')}<span>${t('Only this machine reaches {server}. For others, set SVC_PUBLIC_URL on the server to the address that they use.', { server })}</span></p>`
}
