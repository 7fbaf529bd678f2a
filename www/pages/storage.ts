import type { Project } from '../../lib/model/project.js'
import type { ProjectUsage, StorageUsage } from '../../lib/model/storage.js'
import { css } from '../dom/element.js'
import { html, keyed } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { roomTabs } from '../elements/room-tabs.js'
import { loaded, staleLine } from '../state/resource.js'
import type { Resource } from '../state/resource.js'
import { SvcClean } from '../elements/svc-clean.js'
import { SvcDialog } from '../elements/svc-dialog.js'
import { SvcMeter } from '../elements/svc-meter.js'
import type { MeterPart } from '../elements/svc-meter.js'
import { percentWords, sizeWords } from '../elements/words.js'
import { createAdminCalls } from '../server/admin-calls.js'
import type { AdminCalls } from '../server/admin-calls.js'
import { countWords, numberWords, t } from '../words/t.js'
import { Page } from './page.js'

interface Shown {
  usage: StorageUsage
  projects: Project[]
  /** As the setting says; proposed for a clean-up. */
  keep: number
}

/** Of the projects, the largest; the others on request. */
const shownProjects = 100

/** What the data directory and the targets take, and what of it may go. */
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

  #calls!: AdminCalls
  #shown!: Resource<Shown>
  #areAllShown = false

  protected override connected(): void {
    this.entitle(t('Storage'), [{ words: t('System'), address: 'system' }, { words: t('Storage') }])
    this.#calls = createAdminCalls(this.context.client)
    this.#shown = this.resource(async signal => {
      const [usage, projects, settings] = await Promise.all([
        this.#calls.storage(signal), this.context.calls.projects(signal), this.#calls.settings(signal)
      ])
      return { usage, projects, keep: Number(settings.values['keep_archives'] ?? 10) }
    })
  }

  protected override view(): Template {
    const home = this.#shown.value?.usage.home
    return html`
      <div class="page-head">
        <div>
          <h1>${home === undefined ? t('Storage') : t('{size} in use', { size: sizeWords(home.bytes) })}</h1>
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
        ${this.#areAllShown || shown.usage.projects.length <= shownProjects
          ? null
          : html`
            <div class="actions">
              <button type="button" @click="${() => this.#showAll()}">
                ${t('Show all {count}', { count: countWords(shown.usage.projects.length, 'project') })}
              </button>
            </div>`}
      </section>
      <section class="section">
        <h2>${t('Clean up')}</h2>
        <div class="card padded">
          <svc-clean .calls="${this.#calls}" .keep="${shown.keep}" .projects="${shown.projects}"
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
    path, free: sizeWords(freeBytes), total: sizeWords(totalBytes)
  })
}

interface TotalRow {
  kind: MeterPart['kind']
  key: keyof StorageUsage['totals']
  words: string
}

const totalRows: readonly TotalRow[] = [
  { kind: 'first', key: 'archives', words: 'Archives' },
  { kind: 'second', key: 'logs', words: 'Outputs and lists of files' },
  { kind: 'third', key: 'tmp', words: 'Temporary files' },
  { kind: 'fourth', key: 'database', words: 'Database' }
]

function totals({ home, totals }: StorageUsage): Template {
  const percent = home.percentUsed
  return html`
    <div class="totals number">
      <svc-meter label="${totalRows.map(({ key, words }) => `${t(words)}: ${sizeWords(totals[key])}`).join(', ')}"
        .parts="${totalRows.map(({ key, kind }) => ({ kind, value: totals[key] }))}" .whole="${home.bytes}"></svc-meter>
      <ul class="key">
        ${totalRows.map(({ kind, key, words }) => html`
          <li><i data-kind="${kind}"></i><b>${sizeWords(totals[key])}</b><span class="muted small">${t(words)}</span></li>`)}
      </ul>
      ${percent === null
        ? null
        : html`<p class="muted small">${t('The disk is {percent} full, with all that others keep on it.', { percent: percentWords(percent) })}</p>`}
    </div>`
}

function projectList({ usage, projects }: Shown, most: number): Template {
  if (usage.projects.length === 0) {
    return html`<div class="state"><p class="muted">${t('No projects yet: nothing is kept for any.')}</p></div>`
  }
  const names = new Map(projects.map(({ id, name }) => [id, name]))
  const sorted = [...usage.projects].sort((a, b) => keptBytes(b) - keptBytes(a)).slice(0, most)
  const largestBytes = Math.max(1, keptBytes(sorted[0] as ProjectUsage))
  return html`
    <div class="head" aria-hidden="true">
      <span>${t('Project')}</span><span></span><span>${t('Archives')}</span><span>${t('Size')}</span>
      <span>${t('Outputs')}</span><span>${t('Target')}</span>
    </div>
    <ul class="number">${sorted.map(each => keyed(each.projectId, projectRow(each, names.get(each.projectId) ?? each.projectId, largestBytes)))}</ul>`
}

const keptBytes = ({ archiveBytes, logBytes }: ProjectUsage): number => archiveBytes + logBytes

function projectRow(usage: ProjectUsage, name: string, largestBytes: number): Template {
  const { projectId, archiveCount, archiveBytes, logBytes, deployPathBytes } = usage
  const figures: Array<[label: string, value: string]> = [
    [t('Archives'), numberWords(archiveCount)],
    [t('Size'), sizeWords(archiveBytes)],
    [t('Outputs'), sizeWords(logBytes)],
    [t('Target'), deployPathBytes === null ? '–' : sizeWords(deployPathBytes)]
  ]
  return html`
    <li>
      <a href="${`projects/${projectId}`}">
        <b class="cut" title="${name}">${name}</b>
        <svc-meter label="${t('{size} kept', { size: sizeWords(keptBytes(usage)) })}" .whole="${largestBytes}"
          .parts="${[{ kind: 'first', value: archiveBytes }, { kind: 'second', value: logBytes }]}"></svc-meter>
        ${figures.map(([label, value]) => html`
          <span title="${value === '–' ? t('Missing, or too large to be counted in passing') : null}"><span class="label">${label} </span>${value}</span>`)}
      </a>
    </li>`
}

export const elements = {
  'svc-page-storage': StoragePage, 'svc-clean': SvcClean, 'svc-meter': SvcMeter, 'svc-dialog': SvcDialog
}
