import type { BrokenProjects, Overview, PinnedProject, RecentDays } from '../../lib/model/health.js'
import type { Marks, Waiting } from '../../lib/model/marks.js'
import { css } from '../elements/element.js'
import { html, keyed, type Template } from '../dom/html.js'
import type { Restriction } from '../server/requests.js'
import { serverNow } from '../server/client.js'
import { deploymentWords, inForce, projectStatus, spanWords } from '../elements/base/words.js'
import { loaded, type Resource, staleLine } from '../state/resource.js'
import { SvcBroken, SvcDeployments } from '../elements/deployments/svc-deployments.js'
import { SvcBackgroundFailure, SvcMarked, SvcSpan, SvcStatus, SvcTime } from '../elements/base/facts.js'
import { isWaitingToBegin } from '../shared/api.js'
import { numberWords, t } from '../words/t.js'
import { Page } from './page.js'
import { may } from '../state/session.js'

const refreshMs = 30_000
/** The calendar shows half a year. */
const shownDays = 182
const daysRefreshMs = 60_000

/** The charts are loaded after the first paint, when the place of one comes near the screen. */
const loadCharts = () => import('../elements/machine/svc-machine.js')

const loadWaiting = () => import('../elements/projects/svc-waiting.js')

/** The state of the server and of its deployments. An empty server shows the three steps to a first deployment. */
export class OverviewPage extends Page {
  static override sheet = css`
    svc-page-overview {
      .answer { display: grid; gap: 6px; padding-top: 8px; overflow-wrap: anywhere; }
      .answer p { color: var(--muted); font-size: var(--size-16); }
      .answer p > a { text-decoration: underline; }

      dl { display: grid; grid-template-columns: repeat(5, minmax(0, 1fr)); }
      dl div { display: grid; gap: 2px; padding: 16px 20px; align-content: start; }
      dl div + div { border-left: 1px solid var(--line); }
      dt { color: var(--muted); font-size: var(--size-13); }
      dd { font-size: var(--size-20); font-weight: 600; letter-spacing: -0.01em; }
      dd.good { color: var(--success); }
      dd.bad { color: var(--failure); }
      dd + dd { color: var(--muted); font-size: var(--size-13); font-weight: 400; letter-spacing: 0; }

      .pinned { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(250px, 100%), 1fr)); gap: 12px; }
      .pinned a { display: grid; gap: 6px; padding: 14px 16px; color: inherit; }
      .pinned a:hover { background: var(--hover); text-decoration: none; }
      .pinned b { display: block; font-weight: 500; }
      .pinned .below { display: flex; gap: 12px; justify-content: space-between; }
      .pinned svc-time { color: var(--muted); font-size: var(--size-13); }

      /* Reserves the space of the charts, which come after the first paint. */
      .space { min-height: 215px; }
      .space.trends { min-height: 270px; }

      @media (max-width: 979px) {
        .space { min-height: 429px; }
        .space.trends { min-height: 571px; }
      }
      @media (max-width: 719px) {
        dl { grid-template-columns: repeat(2, minmax(0, 1fr)); }
        dl div { padding: 12px 16px; }
        dl div:nth-child(even) { border-left: 1px solid var(--line); }
        dl div:nth-child(odd) { border-left: 0; }
        dl div:nth-child(n + 3) { border-top: 1px solid var(--line); }
        dl div:last-child:nth-child(odd) { grid-column: 1 / 3; }
        .answer p { font-size: var(--size-14); }
        .space { min-height: 413px; }
        .space.trends { min-height: 575px; }
      }
    }
  `

  #overview!: Resource<Overview>
  #locks!: Resource<readonly Restriction[]>
  #waits: readonly Waiting[] = []
  #canShowWaits = false
  #days: RecentDays | null = null
  #daysAtMs = -Infinity
  #machine: Awaited<ReturnType<typeof loadCharts>> | undefined
  #hasTrends = false
  #observer!: IntersectionObserver
  /** Places whose charts could not be loaded. The next refresh tries again. */
  readonly #waiting = new Set<Element>()

  protected override connected(): void {
    this.entitle(t('Overview'), [{ words: t('Overview') }])
    this.#overview = this.resource(signal => this.#load(signal))
    this.#locks = this.resource(signal => this.#loadLocks(signal))
    this.#observer = new IntersectionObserver(entries => {
      for (const { target, isIntersecting } of entries) if (isIntersecting) void this.#loadLate(target)
    })
    this.signal.addEventListener('abort', () => this.#observer.disconnect(), { once: true })
    this.follow(['projects', 'deployments'], () => void this.#overview.load())
    this.context.marks.follow(() => {
      this.#waits = this.context.marks.waiting
      this.update()
    }, this.signal)
    this.follow(['locks'], () => void this.#locks.refresh())
    // Health and the machine change without a write of the server.
    this.repeat(refreshMs, () => {
      this.#waiting.clear()
      void this.#overview.refresh()
      void this.#read()
    })
    this.listen(this.context.connection, 'change', () => this.update())
  }

  /** Whether the shown data may be outdated because the connection is lost. */
  get #isLost(): boolean {
    return this.context.connection.state === 'lost' || this.#overview.error !== undefined
  }

  protected override view(): Template {
    return html`${loaded(this.#overview, 'the overview', overview => this.#page(overview))}`
  }

  protected override rendered(): void {
    for (const space of this.querySelectorAll('[data-late]'))
      if (!this.#waiting.has(space)) this.#observer.observe(space)
  }

  async #load(signal: AbortSignal): Promise<Overview> {
    const areDaysOld = performance.now() - this.#daysAtMs > daysRefreshMs
    const overview = await this.context.client.call('GET /api/overview', {
      query: { days: (areDaysOld ? shownDays : null) ?? undefined },
      signal
    })
    if (overview.days !== null) {
      this.#days = overview.days
      this.#daysAtMs = performance.now()
    }
    if (overview.status.deploymentCount === 0) {
      // Only an empty server shows the first steps.
      this.context.define((await import('../elements/projects/svc-first-steps.js')).elements)
    }
    // Usually nothing is broken.
    // Usually nothing waits. It is known with the first screen, so that nothing moves later.
    if (overview.waiting.length > 0) {
      this.context.define((await loadWaiting()).elements)
      this.#canShowWaits = true
    }
    this.#waits = overview.waiting
    return overview
  }

  async #loadLocks(signal: AbortSignal): Promise<readonly Restriction[]> {
    const locks = await this.context.client.call('GET /api/locks', { query: { kind: 'all' }, signal })
    // Usually nothing is locked.
    if (locks.length > 0) this.context.define((await import('../elements/projects/svc-locks.js')).elements)
    return locks
  }

  async #loadLate(space: Element): Promise<void> {
    this.#observer.unobserve(space)
    try {
      const charts = await loadCharts()
      this.context.define(charts.elements)
      if (space.getAttribute('data-late') === 'machine') {
        this.#machine = charts
        void this.#read()
      } else this.#hasTrends = true
    } catch {
      // The page works without charts.
      this.#waiting.add(space)
    }
    this.update()
  }

  /** Reads the machine while its charts are shown. The overview itself reports failures. */
  async #read(): Promise<void> {
    if (this.#machine === undefined) return
    const reading = await this.context.client
      .call('GET /api/system/resources', { signal: this.signal })
      .catch(() => null)
    if (reading === null) return
    this.#machine.addReading(this.context.readings, reading)
    this.update()
  }

  #page(overview: Overview): Template {
    const { broken, deployments, newestProject, pinned, status } = overview
    const isLost = this.#isLost
    // The frame already shows a lost connection.
    const stale = this.context.connection.state === 'lost' ? null : staleLine(this.#overview)
    const top = html`
      <section class="answer">${isLost ? lostAnswer() : answer(overview)}${stale}</section>
      ${this.#waitingSection()}
      ${broken.total === 0 ? null : brokenSection(broken, isLost)}
      ${this.#lockSection()}`
    if (status.deploymentCount === 0) {
      return html`
        ${top}
        <svc-first-steps .project="${newestProject ?? undefined}" .server="${this.context.client.address('')}"
          .client="${this.context.client}"></svc-first-steps>
        ${figures(overview, isLost)}`
    }
    return html`
      ${top}
      ${figures(overview, isLost)}
      ${
        pinned.length === 0
          ? null
          : html`
          <section class="section">
            <h2>${t('Pinned projects')}</h2>
            <ul class="pinned">${pinned.map(project => keyed(project.id, pinnedItem(project, { isLost, marks: this.context.marks })))}</ul>
          </section>`
      }
      <section class="section">
        <div class="section-head"><h2>${t('Last deployments')}</h2><a href="deployments">${t('All deployments')}</a></div>
        <div class="card"><svc-deployments .items="${deployments}" .waiting="${this.context.marks.waiting}"></svc-deployments></div>
      </section>
      ${may('health') ? this.#machineSection() : null}
      <div class="space trends" data-late="${this.#hasTrends ? null : 'trends'}">
        ${!this.#hasTrends ? null : html`<svc-trends .days="${this.#days}"></svc-trends>`}
      </div>`
  }

  #machineSection(): Template {
    return html`
      <section class="section">
        <div class="section-head"><h2>${t('Machine')}</h2><a href="system">${t('Health and resources')}</a></div>
        <div class="card space" data-late="${this.#machine === undefined ? 'machine' : null}">
          ${this.#machine === undefined ? null : html`<svc-machine .readings="${[...this.context.readings]}"></svc-machine>`}
        </div>
      </section>`
  }

  /** Shows what waits for somebody. Usually nothing does. */
  #waitingSection(): Template | null {
    if (this.#waits.length === 0 || !(this.#canShowWaits || this.late(loadWaiting, true))) return null
    return html`<svc-waiting .items="${this.#waits}"></svc-waiting>`
  }

  /** Shows the locks in force, and the projects in maintenance. */
  #lockSection(): Template | null {
    const locks = inForce(this.#locks.value ?? [], serverNow())
    if (locks.length === 0) return null
    return html`
      <section class="section">
        <h2>${locks.every(({ kind }) => kind === 'maintenance') ? t('In maintenance') : t('Locked')}</h2>
        <svc-locks .items="${locks}" .client="${this.context.client}"
          @lockschange="${() => void this.#locks.refresh()}"></svc-locks>
      </section>`
  }
}

/** Shows that the state of the server is unknown. The frame shows the time of its last answer. */
function lostAnswer(): Template {
  return html`
    <h1>${t('The server does not answer')}</h1>
    <p>${t('The server may have stopped, or the network may be down. This page keeps retrying.')}</p>`
}

/** Shows the broken projects: those of production first. */
function brokenSection({ items, total }: BrokenProjects, isLost: boolean): Template {
  return html`
    <section class="section broken">
      <h2>${isLost ? t('Broken at the last response') : t('Broken now')}</h2>
      <svc-broken .items="${items}" .total="${total}"></svc-broken>
    </section>`
}

/** Shows the main answer in the largest type: whether everything works. */
function answer({ status, health, broken, deployments, runningCount, queuedCount }: Overview): Template {
  const begun = deployments.filter(item => !isWaitingToBegin(item))
  const [last] = begun
  if (health.status !== 'ok') {
    return html`
      <h1>${t('The server is unhealthy')}</h1>
      <p>${t('The database is not writable.')} ${may('health') ? html`<a href="system">${t('Show the problem')}</a>` : null}</p>`
  }
  if (last === undefined) {
    return status.projectCount === 0
      ? html`
        <h1>${t('Ready for a first project')}</h1>
        <p>${t('The server is running and has no projects yet. Deploy the first one in three steps:')}</p>`
      : html`<h1>${t('Ready for a first deployment')}</h1><p>${t('No deployments yet.')}</p>`
  }
  if (broken.total > 0) return brokenAnswer(broken)
  const goingCount = runningCount + queuedCount
  if (goingCount > 0) {
    const going = begun.find(item => item.status === 'running' || item.status === 'queued')
    const what =
      goingCount === 1 && going !== undefined
        ? t('Deploying {name}', { name: going.projectName })
        : t('{count} deployments in progress', { count: numberWords(goingCount) })
    const running = t('{count} running', { count: numberWords(runningCount) })
    const queued = t('{count} queued', { count: numberWords(queuedCount) })
    return html`
      <h1>${what}</h1>
      <p>
        ${queuedCount === 0 ? running : `${running}, ${queued}`}
        ${going === undefined ? null : html` · <a href="deployments/${going.id}">${t('Watch it')}</a>`}
      </p>`
  }
  return html`
    <h1>${t('{name} is deployed', { name: last.projectName })}</h1>
    <p><svc-time at="${last.startTime}"></svc-time> · ${deploymentWords(last)} · ${t('No project is broken.')}</p>`
}

function brokenAnswer({ items, total }: BrokenProjects): Template {
  const [first] = items
  if (total > 1 || first === undefined) {
    return html`
      <h1>${t('{count} projects are broken', { count: numberWords(total) })}</h1>
      <p>${t('Their last deployments failed. Production comes first, then what broke last.')}</p>`
  }
  return first.failed.backgroundFailed
    ? html`<h1>${t('The script of {name} failed in the background', { name: first.projectName })}</h1>`
    : html`<h1>${t('{name} failed to deploy', { name: first.projectName })}</h1>`
}

function healthWords(status: Overview['health']['status']): string {
  return status === 'ok' ? t('Healthy') : status === 'cut_off' ? t('Cut off') : t('Unhealthy')
}

function figures({ status, health }: Overview, isLost: boolean): Template {
  const isWell = health.status === 'ok'
  const hasRuns = status.successCount + status.failedCount > 0
  const rate = hasRuns ? `${Math.round(status.successRate * 10) / 10} %` : '–'
  const rows: Array<{ name: string; value: string; note?: string; kind?: string }> = [
    {
      name: t('Health'),
      value: isLost ? t('Unknown') : healthWords(health.status),
      note: t('version {version}', { version: health.version }),
      ...(!isLost && { kind: isWell ? 'good' : 'bad' })
    },
    { name: t('Success rate'), value: rate, note: t('{count} failed', { count: numberWords(status.failedCount) }) },
    {
      name: t('Deployments'),
      value: numberWords(status.deploymentCount),
      note: t('{count} succeeded', { count: numberWords(status.successCount) })
    },
    { name: t('Projects'), value: numberWords(status.projectCount) },
    { name: t('Uptime'), value: spanWords(health.uptime * 1000) }
  ]
  return html`
    <dl class="card number">
      ${rows.map(
        ({ name, value, note, kind }) => html`
        <div>
          <dt>${name}</dt>
          <dd class="${kind}">${value}</dd>
          ${note === undefined ? null : html`<dd>${note}</dd>`}
        </div>`
      )}
    </dl>`
}

function pinnedItem(
  { id, name, env, status, lastDeployAt }: PinnedProject,
  { isLost, marks }: { isLost: boolean; marks: Marks }
): Template {
  const shown = projectStatus({ id, status }, marks)
  return html`
    <li>
      <a class="card" href="projects/${id}">
        <span class="cut" title="${name}"><b class="cut">${name}</b></span>
        <span class="below">
          <svc-status state="${isLost ? 'unknown' : shown}"></svc-status>
          ${lastDeployAt === null ? html`<span class="muted small cut">${env}</span>` : html`<svc-time at="${lastDeployAt}"></svc-time>`}
        </span>
      </a>
    </li>`
}

export const elements = {
  'svc-broken': SvcBroken,
  'svc-page-overview': OverviewPage,
  'svc-deployments': SvcDeployments,
  'svc-background-failure': SvcBackgroundFailure,
  'svc-marked': SvcMarked,
  'svc-status': SvcStatus,
  'svc-span': SvcSpan,
  'svc-time': SvcTime
}
