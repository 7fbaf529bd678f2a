import type { ClusterStatus } from '../../../lib/model/health.js'
import { css, SvcElement } from '../element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { isCutOff } from '../../shared/api.js'
import { SvcTime } from '../base/facts.js'
import { secondsWords } from '../base/words.js'
import { numberWords, t, serverWords, twoLines } from '../../words/t.js'
import { serverNow } from '../../server/client.js'

type Hub = ClusterStatus['hubs'][number]

/** Hubs say every 15 seconds that they are there. One that was not seen for this long is away. */
const awayMs = 60_000

/** The cluster as the hub that answers sees it: its own role, and all hubs. Property: `cluster`. */
export class SvcCluster extends SvcElement {
  static override sheet = css`
    svc-cluster {
      display: block;

      .own { display: grid; grid-template-columns: 16px minmax(0, 1fr); gap: 2px 12px; padding: 12px 20px; }
      .own > .icon { margin-top: 3px; }
      .own b { font-weight: 500; overflow-wrap: anywhere; }
      .own > :not(.icon) { grid-column: 2; }
      .own > b { grid-row: 1; }
      .own.good > .icon { color: var(--success); }
      .own.warning > .icon, .own .problem { color: var(--warning); }
      > p { padding: 0 20px 12px 48px; }

      table { width: 100%; border-collapse: collapse; border-top: 1px solid var(--line); }
      th { color: var(--muted); font-size: var(--size-13); font-weight: 400; text-align: left; white-space: nowrap; }
      th, td { padding: 8px 20px 8px 0; vertical-align: baseline; }
      th:first-child, td:first-child { padding-left: 20px; }
      tbody tr { border-top: 1px solid var(--line); }
      td { font-size: var(--size-13); overflow-wrap: anywhere; }
      td:first-child { font-size: inherit; font-weight: 500; }
      td:nth-child(2), td:nth-child(3) { white-space: nowrap; }
      td small { margin-left: 8px; color: var(--muted); font-size: var(--size-12); font-weight: 500; white-space: nowrap; }
      td small.leads { color: var(--accent); }
      td.late { color: var(--warning); }
      td.address { color: var(--muted); }

      @media (max-width: 719px) {
        .own { padding: 12px 16px; }
        > p { padding: 0 16px 12px 44px; }
        thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
        table, tbody { display: block; }
        tbody tr { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 2px 16px; padding: 10px 16px; }
        tbody tr:first-child { border-top: 0; }
        th, td, th:first-child, td:first-child { padding: 0; }
        td:first-child { grid-column: 1 / 3; }
        td:nth-child(3) { text-align: right; }
        td.address { grid-column: 1 / 3; }
      }
    }
  `

  cluster!: ClusterStatus

  protected override view(): Template {
    const { cluster } = this
    const { hubs, problem } = cluster
    const cutOff = isCutOff(cluster)
    const isWarning = cutOff || problem !== null
    return html`
      <div class="${isWarning ? 'own warning' : 'own good'}">
        ${icon(isWarning ? 'warning' : 'success')}
        <b>${sentence(cluster)}</b>
        <span class="muted small">${facts(cluster)}</span>
        ${problem === null ? null : html`<span class="problem small" role="status">${twoLines(serverWords(problem))}</span>`}
      </div>
      ${
        hubs.length === 0
          ? html`<p class="muted small">${t('etcd has not answered yet, so the other hubs are not known.')}</p>`
          : html`
          ${cutOff ? html`<p class="muted small">${t('The hubs as they were when this hub last heard of them:')}</p>` : null}
          <table>
            <thead><tr><th scope="col">${t('Hub')}</th><th scope="col">${t('Writes')}</th><th scope="col">${t('Last seen')}</th><th scope="col">${t('Address')}</th></tr></thead>
            <tbody>${hubs.map(hub => row(hub, cluster))}</tbody>
          </table>`
      }`
  }
}

function sentence({ hub, role, leader }: ClusterStatus): string {
  if (role === 'leader') return t('{hub} answers you, and leads the cluster', { hub })
  if (leader === null) return t('{hub} answers you, and hears of no leader', { hub })
  return t('{hub} answers you, and follows {leader}', { hub, leader: leader.name })
}

function facts({ role, sequence, staleSeconds }: ClusterStatus): string {
  const number = numberWords(sequence)
  if (role === 'leader') return t('Write {number}. What it shows is up to date.', { number })
  const time = secondsWords(staleSeconds)
  return role === 'alone'
    ? t('Write {number}. What it shows is {time} old, and it refuses changes.', { number, time })
    : t('Write {number}. What it shows is at most {time} old.', { number, time })
}

/** Returns how far a hub is. A hub that is cut off does not know how far the others are by now. */
function writesWords(behind: number, isUnknown: boolean): string {
  if (isUnknown) return t('unknown')
  return behind === 0 ? t('up to date') : t('{count} behind', { count: numberWords(behind) })
}

function row(hub: Hub, cluster: ClusterStatus): Template {
  const { name, behind, seenAt, url } = hub
  const isSelf = name === cluster.hub
  const cutOff = isCutOff(cluster)
  const isAway = !isSelf && (seenAt === null || serverNow() - Date.parse(seenAt) > awayMs)
  return html`
    <tr>
      <td>
        <span translate="no">${name}</span>${name === cluster.leader?.name ? html`<small class="leads">${t('leads')}</small>` : null}${isSelf ? html`<small>${t('this hub')}</small>` : null}
      </td>
      <td class="number">${writesWords(behind, isSelf && cutOff)}</td>
      <td class="${isAway && !cutOff ? 'late' : null}">${isSelf ? t('just now') : seenAt === null ? t('never') : html`<svc-time at="${seenAt}"></svc-time>`}</td>
      <td class="address" translate="no">${url}</td>
    </tr>`
}

export const elements = { 'svc-cluster': SvcCluster, 'svc-time': SvcTime }
