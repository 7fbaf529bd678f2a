import type { Deployment } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import type { DeploymentPage, Health, ServerStatus } from '../server/calls.js'
import { Unreachable } from '../server/client.js'
import { css } from '../dom/css.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { loaded, staleLine } from '../elements/states.js'
import { SvcDeployments } from '../elements/svc-deployments.js'
import { SvcStatus } from '../elements/svc-status.js'
import { SvcSpan, SvcTime } from '../elements/svc-time.js'
import { deploymentWords, spanWords } from '../elements/words.js'
import type { Resource } from '../state/resource.js'
import { Page } from './page.js'
import { countWords } from '../words/t.js'

const refreshMs = 5000
const shownDeployments = 8

interface Overview {
  status: ServerStatus
  health: Health
  deployments: DeploymentPage
  /** Only asked for while nothing has been deployed. */
  projects: Project[] | null
}

/** What the server is doing, and whether it deployed. On an empty server: the three steps to a first deployment. */
export class OverviewPage extends Page {
  static override sheet = css`
    svc-page-overview {
      .answer { display: grid; gap: 6px; padding-top: 8px; }
      .answer p { color: var(--muted); font-size: var(--size-16); }

      dl { display: grid; grid-template-columns: repeat(5, 1fr); }
      dl div { display: grid; gap: 2px; padding: 16px 20px; align-content: start; }
      dl div + div { border-left: 1px solid var(--line); }
      dt { color: var(--muted); font-size: var(--size-13); }
      dd { font-size: var(--size-20); font-weight: 600; letter-spacing: -0.01em; }
      dd.good { color: var(--success); }
      dd.bad { color: var(--failure); }
      dd + dd { color: var(--muted); font-size: var(--size-13); font-weight: 400; letter-spacing: 0; }

      @media (max-width: 719px) {
        dl { grid-template-columns: 1fr 1fr; }
        dl div { padding: 12px 16px; }
        dl div:nth-child(even) { border-left: 1px solid var(--line); }
        dl div:nth-child(odd) { border-left: 0; }
        dl div:nth-child(n + 3) { border-top: 1px solid var(--line); }
        dl div:last-child:nth-child(odd) { grid-column: 1 / 3; }
        .answer p { font-size: var(--size-14); }
      }
    }
  `

  #overview!: Resource<Overview>

  protected override connected(): void {
    this.entitle('Overview', [{ words: 'Overview' }])
    const { calls } = this.context
    this.#overview = this.resource(async signal => {
      const [status, health, deployments] = await Promise.all([
        calls.status(signal),
        calls.health(signal),
        calls.deployments({ limit: shownDeployments }, signal)
      ])
      if (deployments.total > 0) return { status, health, deployments, projects: null }
      // Only an empty server needs them, and their elements.
      const [projects, steps] = await Promise.all([calls.projects(signal), import('../elements/svc-first-steps.js')])
      this.context.define(steps.elements)
      return { status, health, deployments, projects }
    })
    this.repeat(refreshMs, () => void this.#overview.load())
  }

  protected override view(): Template {
    return html`${loaded(this.#overview, 'the overview', overview => this.#page(overview))}`
  }

  #page(overview: Overview): Template {
    const { deployments, projects } = overview
    // An error of the connection is in the frame's top line already.
    const isOffline = this.#overview.error instanceof Unreachable
    return html`
      <section class="answer">${answer(overview)}${isOffline ? null : staleLine(this.#overview)}</section>
      ${projects === null
        ? html`
          ${figures(overview)}
          <section class="section">
            <div class="section-head"><h2>Last deployments</h2><a href="deployments">All deployments</a></div>
            <div class="card"><svc-deployments .items="${deployments.items}"></svc-deployments></div>
          </section>`
        : html`
          <svc-first-steps .project="${projects[0]}" .server="${this.context.client.address('')}"></svc-first-steps>
          ${figures(overview)}`}`
  }
}

/** The question a reader comes with, answered in the largest type on the screen. */
function answer({ status, health, deployments }: Overview): Template {
  const [last] = deployments.items
  const going = deployments.items.filter(item => item.status === 'running' || item.status === 'queued')
  if (health.status !== 'ok') {
    return html`
      <h1>The server is not well</h1>
      <p>Its health says “${health.status}”. The server's own log tells why.</p>`
  }
  if (last === undefined) {
    return status.projectCount === 0
      ? html`<h1>Ready for a first project</h1><p>The server runs and is empty. Three steps to a first deployment:</p>`
      : html`<h1>Ready for a first deployment</h1><p>Nothing has been deployed yet.</p>`
  }
  if (going.length > 0) {
    const what = going.length === 1 ? `Deploying ${going[0]?.projectName}` : `${going.length} deployments going on`
    return html`<h1>${what}</h1><p>${goingWords(going)}</p>`
  }
  const when = html`<svc-time at="${last.startTime}"></svc-time>`
  return last.status === 'failed'
    ? html`
      <h1>${last.projectName} failed to deploy</h1>
      <p>${when}${last.errorMessage && ` · ${last.errorMessage}`}</p>`
    : html`<h1>${last.projectName} is deployed</h1><p>${when} · ${deploymentWords(last)}</p>`
}

function goingWords(going: Deployment[]): string {
  const count = (status: string): number => going.filter(item => item.status === status).length
  const queued = count('queued') === 0 ? '' : `, ${count('queued')} queued`
  return `${countWords(count('running'), 'deployment')} running${queued}.`
}

function figures({ status, health }: Overview): Template {
  const isWell = health.status === 'ok'
  const hasRuns = status.successCount + status.failedCount > 0
  const number = (count: number): string => count.toLocaleString('en')
  const rate = hasRuns ? `${Math.round(status.successRate * 10) / 10} %` : '–'
  const rows: Array<{ name: string; value: string; note?: string; kind?: string }> = [
    {
      name: 'Health', value: isWell ? 'Healthy' : health.status, note: `version ${health.version}`,
      kind: isWell ? 'good' : 'bad'
    },
    { name: 'Success rate', value: rate, note: `${number(status.failedCount)} failed` },
    { name: 'Deployments', value: number(status.deploymentCount), note: `${number(status.successCount)} succeeded` },
    { name: 'Projects', value: number(status.projectCount) },
    { name: 'Uptime', value: spanWords(health.uptime * 1000) }
  ]
  return html`
    <dl class="card number">
      ${rows.map(({ name, value, note, kind }) => html`
        <div>
          <dt>${name}</dt>
          <dd class="${kind}">${value}</dd>
          ${note === undefined ? null : html`<dd>${note}</dd>`}
        </div>`)}
    </dl>`
}

export const elements = {
  'svc-page-overview': OverviewPage,
  'svc-deployments': SvcDeployments,
  'svc-status': SvcStatus,
  'svc-span': SvcSpan,
  'svc-time': SvcTime
}
