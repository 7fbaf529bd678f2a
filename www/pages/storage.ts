import { readSettings } from '../server/requests.js'
import type { ShownProject as Project } from '../../lib/model/project.js'
import type { ProjectUsage, StorageUsage } from '../../lib/model/machine.js'
import { css } from '../elements/element.js'
import { html, keyed, type Template } from '../dom/html.js'
import { Page, roomTabs } from './page.js'
import { loaded, type Resource, staleLine } from '../state/resource.js'
import { SvcClean } from '../elements/settings/svc-clean.js'
import { SvcDialog } from '../elements/base/form.js'
import { type MeterPart, SvcMeter } from '../elements/machine/machine-facts.js'
import { percentWords } from '../elements/base/words.js'
import { formatBytes } from '../shared/api.js'
import { countWords, numberWords, t } from '../words/t.js'

interface Shown {
  usage: StorageUsage
  projects: Project[]
  /** Value of the setting, the default of a clean-up. */
  keep: number
}

/** Number of largest projects that are shown. The others are shown on request. */
const shownProjects = 100

/** Disk usage of the data directory and the targets, and clean-up. */
export class StoragePage extends Page {
  static override sheet = css`
    svc-page-storage {
      .totals { display: grid; gap: 16px; }
      .totals svc-meter { height: 12px; border-radius: 6px; }
      .key { display: flex; flex-wrap: wrap; gap: 8px 24px; }
      .key li { display: grid; grid-template-columns: 10px auto; gap: 0 8px; align-items: center; }
      .key i { width: 10px; height: 10px; border-radius: 2px; }
      .key i[data-kind='first'] { background: var(--accent); }
      .key i[data-kind='second'] { background: var(--success); }
      .key i[data-kind='third'] { background: var(--warning); }
      .key i[data-kind='fourth'] { background: var(--edge); }
      .key b, .key span { grid-column: 2; }
      .key b { font-weight: 600; }

      .projects a, .projects .head {
        display: grid;
        grid-template-columns: minmax(0, 1.4fr) minmax(0, 1fr) 80px 90px 90px 90px;
        gap: 4px 16px;
        align-items: center;
        min-height: calc(var(--row) + 8px);
        padding: 6px 20px;
        color: inherit;
      }
      .projects li { border-top: 1px solid var(--line); }
      .projects .head { min-height: var(--row); color: var(--muted); font-size: var(--size-13); }
      .projects .head span:nth-child(n + 3), .projects a span { text-align: right; }
      .projects a:hover { background: var(--hover); text-decoration: none; }
      .projects a:focus-visible { outline-offset: -2px; }
      .projects b { font-weight: 500; }
      .projects .label { display: none; }
      .projects .others { padding: 10px 20px; border-top: 1px solid var(--line); }

      @media (max-width: 719px) {
        .projects .head { display: none; }
        .projects li:first-child { border-top: 0; }
        .projects a { grid-template-columns: repeat(2, minmax(0, 1fr)); padding: 12px 16px; }
        .projects b, .projects svc-meter { grid-column: 1 / 3; }
        .projects a span { text-align: left; font-size: var(--size-13); }
        .projects .label { display: inline; color: var(--muted); }
      }
    }
  `

  #shown!: Resource<Shown>
  #areAllShown = false

  protected override connected(): void {
    this.entitle(t('Storage'), [{ words: t('System'), address: 'system' }, { words: t('Storage') }])
    this.#shown = this.resource(async signal => {
      const [usage, projects, settings] = await Promise.all([
        this.context.client.call('GET /api/storage', { signal }),
        this.context.client.call('GET /api/projects', { signal }),
        readSettings(this.context.client, signal)
      ])
      return { usage, projects, keep: Number(settings.values['keep_archives'] ?? 10) }
    })
  }

  protected override view(): Template {
    const home = this.#shown.value?.usage.home
    return html`
      <div class="page-head">
        <div>
          <h1>${home === undefined ? t('Storage') : t('{size} in use', { size: formatBytes(home.bytes) })}</h1>
          ${home === undefined ? null : html`<p class="muted anywhere">${freeWords(home)}</p>`}
        </div>
      </div>
      ${roomTabs('system', 'storage')}
      ${staleLine(this.#shown)}
      ${loaded(this.#shown, 'the storage', shown => this.#page(shown))}`
  }

  #page(shown: Shown): Template {
    return html`
      <section class="section">
        <h2>${t('Data directory')}</h2>
        <div class="card padded">${totals(shown.usage)}</div>
      </section>
      <section class="section">
        <h2>${t('Projects')}</h2>
        <div class="card projects">${projectList(shown, this.#areAllShown ? Infinity : shownProjects)}</div>
        ${
          this.#areAllShown || using(shown).length <= shownProjects
            ? null
            : html`
            <div class="actions">
              <button type="button" @click="${() => this.#showAll()}">
                ${t('Show all {count}', { count: countWords(using(shown).length, 'project') })}
              </button>
            </div>`
        }
      </section>
      <section class="section">
        <h2>${t('Clean up')}</h2>
        <div class="card padded">
          <svc-clean .client="${this.context.client}" .keep="${shown.keep}" .projects="${shown.projects}"
            @cleaned="${() => void this.#shown.load()}"></svc-clean>
        </div>
      </section>`
  }

  #showAll(): void {
    this.#areAllShown = true
    this.update()
  }
}

function freeWords({ path, freeBytes, totalBytes }: StorageUsage['home']): string {
  if (freeBytes === null || totalBytes === null) return path
  return t('{path}: {free} of {total} free on its disk', {
    path,
    free: formatBytes(freeBytes),
    total: formatBytes(totalBytes)
  })
}

interface TotalRow {
  kind: MeterPart['kind']
  key: keyof StorageUsage['totals']
  words: string
}

const totalRows: readonly TotalRow[] = [
  { kind: 'first', key: 'archives', words: 'Archives and earlier files' },
  { kind: 'second', key: 'logs', words: 'Output and file lists' },
  { kind: 'third', key: 'tmp', words: 'Temporary files' },
  { kind: 'fourth', key: 'database', words: 'Database' }
]

function totals(usage: StorageUsage): Template {
  const { home, totals } = usage
  const percent = home.percentUsed
  return html`
    <div class="totals number">
      <svc-meter label="${totalRows.map(({ key, words }) => `${t(words)}: ${formatBytes(totals[key])}`).join(', ')}"
        .parts="${totalRows.map(({ key, kind }) => ({ kind, value: totals[key] }))}" .whole="${home.bytes}"></svc-meter>
      <ul class="key">
        ${totalRows.map(
          ({ kind, key, words }) => html`
          <li><i data-kind="${kind}"></i><b>${formatBytes(totals[key])}</b><span class="muted small">${t(words)}</span></li>`
        )}
      </ul>
      ${sharedLine(usage)}
      ${
        percent === null
          ? null
          : html`<p class="muted small">${t('The disk is {percent} full, including the files of other programs.', { percent: percentWords(percent) })}</p>`
      }
    </div>`
}

/** Says what is saved because archives share contents; null: nothing. */
function sharedLine({ projects }: StorageUsage): Template | null {
  const sum = (of: (each: ProjectUsage) => number): number => projects.reduce((all, each) => all + of(each), 0)
  const [kept, whole] = [sum(each => each.archiveBytes), sum(each => each.wholeArchiveBytes)]
  if (whole <= kept) return null
  const archives = countWords(
    sum(each => each.archiveCount),
    'archive'
  )
  const sizes = { archives, kept: formatBytes(kept), whole: formatBytes(whole) }
  return html`<p class="muted small">${t('{archives} in {kept}; if each were whole: {whole}.', sizes)}</p>`
}

/** Returns the projects that use storage. */
function using({ usage }: Pick<Shown, 'usage'>): ProjectUsage[] {
  return usage.projects.filter(each => keptBytes(each) > 0 || (each.deployPathBytes ?? 0) > 0)
}

function projectList(shown: Shown, most: number): Template {
  const { usage, projects } = shown
  const found = using(shown)
  const others = usage.projects.length - found.length
  if (found.length === 0) {
    return html`<div class="state"><p class="muted">${t('No project uses storage yet.')}</p></div>`
  }
  const names = new Map(projects.map(({ id, name }) => [id, name]))
  const sorted = found.sort((a, b) => keptBytes(b) - keptBytes(a)).slice(0, most)
  const largestBytes = Math.max(1, keptBytes(sorted[0] as ProjectUsage))
  return html`
    <div class="head" aria-hidden="true">
      <span>${t('Project')}</span><span></span><span>${t('Archives')}</span><span>${t('Size')}</span>
      <span>${t('Outputs')}</span><span>${t('Target')}</span>
    </div>
    <ul class="number">${sorted.map(each => keyed(each.projectId, projectRow(each, names.get(each.projectId) ?? each.projectId, largestBytes)))}</ul>
    ${others === 0 ? null : html`<p class="others muted small">${t('{projects} without anything stored', { projects: countWords(others, 'project') })}</p>`}`
}

const keptBytes = ({ archiveBytes, logBytes }: ProjectUsage): number => archiveBytes + logBytes

function projectRow(usage: ProjectUsage, name: string, largestBytes: number): Template {
  const { projectId, archiveCount, archiveBytes, logBytes, deployPathBytes } = usage
  const figures: Array<[label: string, value: string]> = [
    [t('Archives'), numberWords(archiveCount)],
    [t('Size'), formatBytes(archiveBytes)],
    [t('Outputs'), formatBytes(logBytes)],
    [t('Target'), deployPathBytes === null ? '–' : formatBytes(deployPathBytes)]
  ]
  return html`
    <li>
      <a href="projects/${projectId}">
        <b class="cut" title="${name}">${name}</b>
        <svc-meter label="${t('{size} stored', { size: formatBytes(keptBytes(usage)) })}" .whole="${largestBytes}"
          .parts="${[{ kind: 'first', value: archiveBytes }, { kind: 'second', value: logBytes }]}"></svc-meter>
        ${figures.map(
          ([label, value]) => html`
          <span title="${value === '–' ? t('Missing, or too large to measure quickly') : null}"><span class="label">${label} </span>${value}</span>`
        )}
      </a>
    </li>`
}

export const elements = {
  'svc-page-storage': StoragePage,
  'svc-clean': SvcClean,
  'svc-meter': SvcMeter,
  'svc-dialog': SvcDialog
}
