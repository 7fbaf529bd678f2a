import type { Client } from '../../server/client.js'
import type { Pm2Binding, Pm2Details } from '../../../lib/model/machine.js'
import { css, SvcElement } from '../element.js'
import { html, icon, type Template } from '../../dom/html.js'
import { createResource, type Resource } from '../../state/resource.js'
import { numberWords, t, errorWords, serverWords, twoLines } from '../../words/t.js'
import { spanWords } from '../base/words.js'
import { formatBytes } from '../../shared/api.js'

const refreshMs = 5000

/**
 * The state of the PM2 application of a project, updated while it is visible. Properties: `projectId`; `name` of the
 * application; `client`.
 */
export class SvcPm2 extends SvcElement {
  static override sheet = css`
    svc-pm2 {
      display: block;

      .card { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 28px; min-height: 52px; padding: 8px 16px; }
      .who { display: flex; align-items: center; gap: 8px; min-width: 0; max-width: 100%; }
      .who b { font-weight: 500; }
      .state { display: inline-flex; align-items: center; gap: 6px; padding: 0; color: var(--muted); font-size: var(--size-13); font-weight: 500; }
      .state.online { color: var(--success); }
      .state.errored { color: var(--failure); }
      dl { display: flex; flex-wrap: wrap; gap: 4px 28px; }
      dl div { display: flex; gap: 6px; font-size: var(--size-13); }
      dt { color: var(--muted); }
    }
  `

  projectId = ''
  client!: Client
  name = ''
  #binding!: Resource<Pm2Binding>

  protected override changed(name: string): void {
    if (name === 'name') void this.#binding.load()
  }

  protected override connected(): void {
    this.#binding = createResource<Pm2Binding>({
      load: signal => this.client.call('GET /api/projects/:id/pm2', { id: this.projectId, signal }),
      onChange: () => this.update(),
      signal: this.signal
    })
    const load = (): void => {
      if (!document.hidden) void this.#binding.load()
    }
    load()
    this.every(refreshMs, load)
    this.listen(document, 'visibilitychange', load)
  }

  protected override view(): Template {
    return html`
      <section class="card" aria-label="${t('PM2 application')}">
        <p class="who"><span class="muted">PM2</span><b class="cut" translate="no" title="${this.name}">${this.name}</b></p>
        ${this.#state()}
      </section>`
  }

  #state(): Template {
    const { value, error } = this.#binding
    if (value === undefined) {
      return html`<p class="muted small">${error === undefined ? t('Loading PM2 status…') : errorWords(error)}</p>`
    }
    if (!value.bound || value.found === null)
      return html`<p class="muted small anywhere">${twoLines(serverWords(value.message))}</p>`
    if (!value.found) return html`<p class="state">${icon('warning')}${t('No PM2 application with this name')}</p>`
    return details(value)
  }
}

function details(app: Pm2Details): Template {
  const picture = app.status === 'online' ? 'success' : app.status === 'errored' ? 'failed' : 'skipped'
  const facts = [
    { name: t('CPU'), value: `${numberWords(app.cpuPercent)} %` },
    { name: t('Memory'), value: formatBytes(app.memoryBytes) },
    { name: t('Restarts'), value: numberWords(app.restarts) },
    ...(app.status === 'online' ? [{ name: t('Uptime'), value: spanWords(app.uptimeMs) }] : []),
    ...(app.instances > 1 ? [{ name: t('Instances'), value: numberWords(app.instances) }] : [])
  ]
  return html`
    <p class="state ${app.status}">${icon(picture)}<span translate="no">${app.status}</span></p>
    <dl class="number">${facts.map(({ name, value }) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`
}

/** The elements of a page that shows the application of a project. */
export const elements = { 'svc-pm2': SvcPm2 }
