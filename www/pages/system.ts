import type { HealthDetail } from '../../lib/model/health.js'
import type { MachineHistory, ResourceSnapshot, Pm2Apps } from '../../lib/model/machine.js'
import { css } from '../elements/element.js'
import { html, icon, type Template } from '../dom/html.js'
import { fullPercent, machineFacts, nearlyFullPercent, SvcMeter } from '../elements/machine/machine-facts.js'
import { Page, roomTabs } from './page.js'
import { loaded, type Resource, staleLine } from '../state/resource.js'
import { addReading, elements as machineElements } from '../elements/machine/svc-machine.js'
import { elements as historyElements } from '../elements/machine/svc-history.js'
import { percentWords, spanWords } from '../elements/base/words.js'
import { isCutOff, formatBytes } from '../shared/api.js'
import { t, serverWords, twoLines } from '../words/t.js'
import { may } from '../state/session.js'

const refreshMs = 5000
/** Interval of the history rows. */
const historyMs = 60_000

/** Health and resources in detail, and the applications of PM2. */
export class SystemPage extends Page {
  static override sheet = css`
    svc-page-system {
      .checks li { display: grid; grid-template-columns: 16px 200px minmax(0, 1fr); gap: 4px 12px; align-items: center; padding: 10px 20px; }
      .checks li + li { border-top: 1px solid var(--line); }
      .checks .good > .icon { color: var(--success); }
      .checks .bad > .icon, .checks .bad .what { color: var(--failure); }
      .checks .warning > .icon { color: var(--warning); }
      .checks b { font-weight: 500; }
      .meters { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); }
      .meters > div { display: grid; gap: 8px; padding: 16px 20px; }
      .meters > div:nth-child(even) { border-left: 1px solid var(--line); }
      .meters > div:nth-child(n + 3) { border-top: 1px solid var(--line); }
      .meters p { display: flex; justify-content: space-between; gap: 12px; }
      .facts { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 32px 20px; }
      .facts .section { align-content: start; }
      .facts dl > div { display: grid; grid-template-columns: 140px minmax(0, 1fr); gap: 12px; padding: 8px 20px; }
      .facts dl > div + div { border-top: 1px solid var(--line); }
      .facts dt { color: var(--muted); }
      .apps li { display: flex; align-items: center; gap: 16px; min-height: var(--row); padding: 6px 20px; }
      .apps li + li { border-top: 1px solid var(--line); }
      .apps .name { flex: 1; }
      .apps .status { display: inline-flex; align-items: center; gap: 6px; font-size: var(--size-13); font-weight: 500; color: var(--muted); }
      .apps .online { color: var(--success); }
      .apps .errored { color: var(--failure); }

      @media (max-width: 719px) {
        .checks li { grid-template-columns: 16px minmax(0, 1fr); padding: 10px 16px; }
        .checks .what { grid-column: 2; }
        .meters, .facts { grid-template-columns: minmax(0, 1fr); }
        .meters > div { padding: 12px 16px; }
        .meters > div:nth-child(even) { border-left: 0; }
        .meters > div + div { border-top: 1px solid var(--line); }
        .facts dl > div { grid-template-columns: 110px minmax(0, 1fr); padding: 8px 16px; }
      }
    }
  `

  #health!: Resource<HealthDetail>
  #reading!: Resource<ResourceSnapshot>
  /** Undefined if the token may not see them. */
  #apps: Resource<Pm2Apps> | undefined
  #history!: Resource<MachineHistory>

  protected override connected(): void {
    this.entitle(t('System'), [{ words: t('System') }])
    this.#health = this.resource(async signal => {
      const health = await this.context.client.call('GET /api/health/detail', { alsoGood: 503, signal })
      if (health.cluster !== undefined) {
        this.context.define((await import('../elements/machine/svc-cluster.js')).elements)
      }
      return health
    })
    this.#reading = this.resource(async signal => {
      const reading = await this.context.client.call('GET /api/system/resources', { signal })
      addReading(this.context.readings, reading)
      return reading
    })
    if (may('pm2_apps')) this.#apps = this.resource(signal => this.context.client.call('GET /api/pm2/apps', { signal }))
    this.#history = this.resource(signal =>
      this.context.client.call('GET /api/system/history', { query: { step: 5 }, signal })
    )
    this.repeat(historyMs, () => void this.#history.load())
    this.repeat(refreshMs, () => {
      void this.#health.load()
      void this.#reading.load()
      void this.#apps?.load()
    })
  }

  protected override view(): Template {
    const health = this.#health.value
    const answer = health === undefined ? t('System') : answerOf(health)
    return html`
      <div class="page-head">
        <div>
          <h1>${answer}</h1>
          ${
            health === undefined
              ? null
              : html`
              <p class="muted">
                ${t('svc {version}, running for {time}', { version: health.version, time: spanWords(health.uptimeSec * 1000) })}
              </p>`
          }
        </div>
      </div>
      ${roomTabs('system', 'system')}
      ${staleLine(this.#health)}
      <section class="section">
        <h2>${t('Health')}</h2>
        <div class="card">${loaded(this.#health, 'the health', checks)}</div>
      </section>
      ${this.#isAnswered ? this.#rest(health) : null}`
  }

  /** Whether all requests were answered: before, what is below an answer would be pushed down by it. */
  get #isAnswered(): boolean {
    const all = [this.#health, this.#reading, this.#history, this.#apps]
    return all.every(each => each === undefined || each.value !== undefined || each.error !== undefined)
  }

  #rest(health: HealthDetail | undefined): Template {
    return html`
      ${
        health?.cluster === undefined
          ? null
          : html`
          <section class="section">
            <h2>${t('Cluster “{name}”', { name: health.cluster.name })}</h2>
            <div class="card"><svc-cluster .cluster="${health.cluster}"></svc-cluster></div>
          </section>`
      }
      <section class="section">
        <h2>${t('Last ten minutes')}</h2>
        <div class="card">
          ${loaded(
            this.#reading,
            'the resources',
            () => html`
            <svc-machine .readings="${[...this.context.readings]}"></svc-machine>`
          )}
        </div>
      </section>
      <section class="section">
        <h2>${t('Last 24 hours')}</h2>
        <div class="card">${loaded(this.#history, 'the history', day)}</div>
      </section>
      ${this.#reading.value === undefined ? null : machineFacts(this.#reading.value, health)}
      ${
        this.#apps === undefined
          ? null
          : html`
          <section class="section">
            <h2>${t('PM2 applications')}</h2>
            <div class="card">${loaded(this.#apps, 'the applications', apps)}</div>
          </section>`
      }`
  }
}

function answerOf(health: HealthDetail): string {
  if (checksOf(health).some(({ kind }) => kind === 'bad')) return t('The server is unhealthy')
  const isAlone = health.cluster !== undefined && isCutOff(health.cluster)
  return isAlone ? t('This hub is cut off') : t('The server is healthy')
}

interface Check {
  words: string
  kind: 'good' | 'warning' | 'bad'
  what: string
}

function checksOf({
  db,
  kiteHome,
  disk,
  deploy,
  audit,
  archives,
  certificates = [],
  serverTime
}: HealthDetail): Check[] {
  const used = disk.percentUsed
  const diskKind = used === null || used < nearlyFullPercent ? 'good' : used < fullPercent ? 'warning' : 'bad'
  const rate = deploy.successRate === null ? null : deploy.successRate * 100
  return [
    {
      words: t('Database'),
      kind: db.ok ? 'good' : 'bad',
      what: db.ok
        ? db.latencyMs < 1
          ? t('Answers within a millisecond')
          : t('Answers in {time}', { time: spanWords(db.latencyMs) })
        : t(
            'The database is damaged or not writable, so changes are refused. Check the output of svc, then run svc doctor.'
          )
    },
    {
      words: t('Data directory'),
      kind: kiteHome.writable ? 'good' : 'bad',
      what: kiteHome.writable
        ? kiteHome.path
        : t('{path} is not writable. Give the user that runs svc write permission.', { path: kiteHome.path })
    },
    {
      words: t('Temporary files'),
      kind: kiteHome.tmpWritable ? 'good' : 'bad',
      what: kiteHome.tmpWritable ? t('Writable') : t('Not writable: archives cannot be uploaded.')
    },
    {
      words: t('Disk'),
      kind: diskKind,
      what:
        used === null
          ? t('Unknown on this system')
          : diskKind === 'good'
            ? t('{percent} used, {size} free', { percent: percentWords(used), size: formatBytes(disk.freeBytes ?? 0) })
            : t('{percent} used, {size} free: clean up under Storage.', {
                percent: percentWords(used),
                size: formatBytes(disk.freeBytes ?? 0)
              })
    },
    ...(audit === undefined || audit.ok
      ? []
      : [
          {
            words: t('Audit log'),
            kind: 'warning' as const,
            what: t('Damaged since {time}: {why}. Compare an export with checkpoints from elsewhere.', {
              time: audit.brokenSince ?? '',
              why: audit.why ?? ''
            })
          }
        ]),
    ...(audit?.keyProblem == null
      ? []
      : [{ words: t('Server key'), kind: 'warning' as const, what: audit.keyProblem }]),
    ...(archives === undefined || archives.checkedAt === null
      ? []
      : [
          {
            words: t('Archives'),
            kind: archives.damaged.length === 0 ? ('good' as const) : ('warning' as const),
            what:
              archives.damaged.length === 0
                ? t('Intact on {date}', { date: archives.checkedAt.slice(0, 10) })
                : t('Damaged: {list}. Restore them from a backup, or deploy these releases again.', {
                    list: archives.damaged.join(', ')
                  })
          }
        ]),
    ...certificates.map(({ name, expiresAt, cure }) => {
      const state = Date.parse(expiresAt) <= Date.parse(serverTime) ? 'expired on' : 'expires on'
      const what = serverWords(`${name} ${state} ${expiresAt.slice(0, 10)}. ${cure}`)
      return { words: t('Certificates'), kind: 'warning' as const, what }
    }),
    {
      words: t('Last five deployments'),
      kind: rate !== null && rate < 50 ? 'warning' : 'good',
      what: rate === null ? t('None has finished yet') : t('{percent} succeeded', { percent: percentWords(rate) })
    }
  ]
}

function checks(health: HealthDetail): Template {
  const said = { good: t('OK'), warning: t('Warning'), bad: t('Error') }
  return html`
    <ul class="checks">
      ${checksOf(health).map(
        ({ words, kind, what }) => html`
        <li class="${kind}">
          ${icon(kind === 'good' ? 'success' : 'warning')}
          <b>${words}<span class="unseen">: ${said[kind]}</span></b>
          <span class="what anywhere">${twoLines(what)}</span>
        </li>`
      )}
    </ul>`
}

function day(history: MachineHistory): Template {
  if (history.items.length > 0) return html`<svc-history .history="${history}"></svc-history>`
  return html`<div class="state"><p class="muted">${t('The first data appears after one minute.')}</p></div>`
}

function apps({ apps: list, reason, message }: Pm2Apps): Template {
  if (reason === 'missing') {
    return html`
      <div class="state">
        <h2>${t('PM2 is not installed')}</h2>
        <p class="muted">
          ${t('With PM2, projects show the state of their application, and “svc serve --pm2” keeps svc itself running. Install it for the user that runs svc:')}
        </p>
        <div class="command"><pre>npm install -g pm2</pre></div>
      </div>`
  }
  if (message !== undefined) {
    return html`<div class="state"><p class="muted anywhere">${twoLines(serverWords(message))}</p></div>`
  }
  if (list.length === 0) {
    return html`<div class="state"><p class="muted">${t('PM2 runs no applications.')}</p></div>`
  }
  return html`
    <ul class="apps">
      ${list.map(
        ({ name, pmId, status }) => html`
        <li>
          <span class="status ${status}">${icon(appPicture(status))}<span>${appWords(status)}</span></span>
          <span class="name cut" title="${name}">${name}</span>
          <span class="muted small number">${pmId}</span>
        </li>`
      )}
    </ul>`
}

/** Words for the states of PM2. Other states are shown unchanged. */
const appStates: Readonly<Record<string, { words: string }>> = {
  online: { words: 'Online' },
  errored: { words: 'Errored' },
  stopped: { words: 'Stopped' },
  stopping: { words: 'Stopping' },
  launching: { words: 'Starting' }
}

function appWords(status: string): string {
  const state = appStates[status]
  return state === undefined ? status : t(state.words)
}

function appPicture(status: string): 'success' | 'failed' | 'idle' {
  return status === 'online' ? 'success' : status === 'errored' ? 'failed' : 'idle'
}

export const elements = { 'svc-page-system': SystemPage, 'svc-meter': SvcMeter, ...machineElements, ...historyElements }
