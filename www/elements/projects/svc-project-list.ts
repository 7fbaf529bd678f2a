import type { Labels } from '../../server/requests.js'
import { type Client, serverNow } from '../../server/client.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { countWords, numberWords, t } from '../../words/t.js'
import type { Marks } from '../../../lib/model/marks.js'
import { projectMarks, projectStatus } from '../base/words.js'
import { labelList, type LabelTable } from '../base/facts.js'
import { may, type ProjectGroup } from '../../state/session.js'
import { said, type Said, css, SvcElement } from '../element.js'
import { createRowChoice } from '../base/row-choice.js'
import type { SvcRows } from '../base/svc-rows.js'

/** The state of a row of the list. */
export interface ProjectRowState {
  labels: LabelTable
  marks: Marks
  isChosen: boolean
  /** The controls of this row can be reached with Tab. */
  isCurrent: boolean
  onChoose: (event: MouseEvent) => void
  onPin: () => void
}

/** Maximum number of labels shown; the others are counted. */
const shownLabels = 2

/** Returns a row of the list of projects. The list contains its styles. */
export function projectRow(
  project: Project,
  { labels, marks, isChosen, isCurrent, onChoose, onPin }: ProjectRowState
): Template {
  const stop = isCurrent ? null : '-1'
  const under = [project.env, project.description].filter(Boolean).join(' · ')
  return html`
    <div class="${isChosen ? 'row chosen' : 'row'}">
      ${
        may('change_projects')
          ? html`
          <input type="checkbox" tabindex="${stop}" aria-label="${t('Choose {name}', { name: project.name })}"
            .checked="${isChosen}" @click="${(event: Event) => onChoose(event as MouseEvent)}">`
          : null
      }
      <a href="projects/${project.id}" translate="no" tabindex="${stop}">
        <b class="cut" title="${project.name}">${project.name}</b>
        <span class="under">
          ${projectMarks(project.id, marks, serverNow()).map(words => html`<svc-marked words="${words}"></svc-marked>`)}
          <span class="cut" title="${under}">${under}</span>
        </span>
      </a>
      <span class="labels">${labelList(project, labels, shownLabels)}</span>
      <code class="cut" title="${project.deployPath}"><bdi>${project.deployPath}</bdi></code>
      <svc-status state="${projectStatus(project, marks)}"></svc-status>
      ${project.lastDeployAt === null ? html`<span></span>` : html`<svc-time at="${project.lastDeployAt}"></svc-time>`}
      ${
        may('change_projects')
          ? html`
          <button type="button" class="quiet pin" tabindex="${stop}" aria-pressed="${project.pinned ? 'true' : 'false'}"
            aria-label="${t('Pin {name}', { name: project.name })}"
            title="${project.pinned ? t('Pinned to the top') : t('Pin to the top')}"
            @click="${onPin}">${icon('pin')}</button>`
          : null
      }
    </div>`
}

/** The contents of the list. */
export interface ProjectListing {
  /** All existing projects. */
  all: readonly Project[]
  /** The visible projects in order; at least one. A single group without a key has no heading. */
  groups: readonly ProjectGroup[]
  labels: Labels
  table: LabelTable
  /** What waits for somebody, and what is locked. */
  marks: Marks
}

/**
 * The projects as rows, and the actions on chosen ones. Properties: `listing`, `client`. Events: `projectpin`;
 * `bulkdone`, whose failures are listed here. Keys: those of www/elements/base/row-choice.ts and svc-rows.
 */
export class SvcProjectList extends SvcElement {
  static override sheet = css`
    svc-project-list {
      display: block;

      .group { padding: 16px 16px 6px; font-size: var(--size-13); font-weight: 500; }
      svc-rows { --row-px: 57px; }
      .row {
        position: relative;
        display: grid;
        grid-template-columns: 16px minmax(0, 5fr) minmax(0, 4fr) minmax(0, 4fr) 118px 118px 32px;
        align-items: center;
        gap: 0 16px;
        height: 100%;
        padding: 0 12px 0 16px;
      }
      li + li .row { border-top: 1px solid var(--line); }
      .row > input { position: relative; z-index: 1; }
      .row > a { display: grid; min-width: 0; }
      .row b { font-weight: 500; }
      /* Words that have no place beside the marks go to a second line, which is not visible. */
      .row .under { display: flex; flex-wrap: wrap; gap: 6px; min-width: 0; height: 20px; overflow: hidden; }
      .row .under > .cut { flex: 1 1 72px; }
      .row a span, .row code, .row svc-time { color: var(--muted); font-size: var(--size-13); }
      /* Two lines, and the number of further labels always has its place. */
      .row .labels { display: flex; flex-wrap: wrap; align-items: center; gap: 4px; min-width: 0; max-height: 48px; overflow: hidden; }
      .row .labels svc-label { max-width: calc(100% - 32px); }
      /* The end of a path says more than its start. */
      .row code { direction: rtl; text-align: left; }
      .row code bdi { unicode-bidi: plaintext; }
      .row .pin { position: relative; z-index: 1; width: 32px; min-height: 32px; padding: 0; }
      .row .pin[aria-pressed='true'] { color: var(--accent); }
      .row .pin[aria-pressed='true'] .icon { fill: currentColor; }
      .row .pin[aria-pressed='false'] { opacity: 0.45; }
      .row:hover .pin, .row .pin:focus-visible { opacity: 1; }

      /* Without the right to change projects there is nothing to choose and to pin. */
      &[plain] .row { grid-template-columns: minmax(0, 5fr) minmax(0, 4fr) minmax(0, 4fr) 118px 118px; }

      @media (max-width: 1079px) {
        .row { grid-template-columns: 16px minmax(0, 5fr) minmax(0, 4fr) 118px 118px 32px; }
        &[plain] .row { grid-template-columns: minmax(0, 5fr) minmax(0, 4fr) 118px 118px; }
        .row code { display: none; }
      }
      @media (max-width: 719px) {
        svc-rows { --row-px: 93px; }
        .row {
          grid-template: repeat(2, auto) / 20px minmax(0, 1fr) auto 40px;
          align-content: center;
          gap: 6px 10px;
        }
        .row > input { grid-row: 1 / 3; width: 20px; height: 20px; }
        .row > a { grid-column: 2; }
        .row svc-status { grid-area: 1 / 3; }
        /* The mark says it, and until when. */
        .row:has(svc-marked):has(svc-status[state='waiting']) > a { grid-column: 2 / 4; }
        .row:has(svc-marked) svc-status[state='waiting'] { display: none; }
        .row .labels { grid-area: 2 / 2; flex-wrap: nowrap; }
        .row .labels svc-label[kind='category'] { flex: none; max-width: 55%; }
        .row svc-time { grid-area: 2 / 3; text-align: right; }
        .row .pin { grid-area: 1 / 4 / 3; width: 40px; min-height: 44px; }
        .row > span:not(.labels) { display: none; }
        &[plain] .row {
          grid-template: repeat(2, auto) / minmax(0, 1fr) auto;
          > a { grid-column: 1; }
          svc-status { grid-area: 1 / 2; }
          .labels { grid-area: 2 / 1; }
          svc-time { grid-area: 2 / 2; }
        }
      }
    }
  `

  client!: Client
  listing!: ProjectListing
  #done: Said<'bulkdone'> | null = null
  readonly #choice = createRowChoice({
    shown: () => foundIn(this.listing),
    isAllowed: () => may('change_projects'),
    onChange: () => this.update()
  })

  protected override changed(name: string): void {
    if (name === 'listing') this.#choice.keep(this.listing.all)
  }

  protected override view(): Template {
    const { all, groups, labels, table, marks } = this.listing
    const found = foundIn(this.listing)
    const { ids } = this.#choice
    const row = (project: Project, { isCurrent }: { isCurrent: boolean }): Template =>
      projectRow(project, {
        labels: table,
        marks,
        isCurrent,
        isChosen: ids.has(project.id),
        onChoose: event => this.#choice.choose(project.id, event.shiftKey),
        onPin: () => this.dispatchEvent(said('projectpin', { project }))
      })
    const actions = (): Template => html`
      <svc-project-bulk .projects="${all.filter(({ id }) => ids.has(id))}" .labels="${labels}" .client="${this.client}"
        @bulkdone="${(event: Event) => this.#finished(event as Said<'bulkdone'>)}"></svc-project-bulk>`
    return html`
      <svc-choice-head .all="${all}" .found="${found}" .choice="${this.#choice}" .ids="${ids}" .words="${projectsWords}"
        .address="${'projects'}" .actions="${ids.size === 0 ? null : actions()}"></svc-choice-head>
      <svc-bulk-failures .done="${this.#done}" .words="${projectsWords}"
        @failuresread="${() => this.#finished(null)}"></svc-bulk-failures>
      ${groups.map(({ key, projects }) => {
        const name =
          groups.length === 1 && key === null ? null : key === null ? t('No category') : (table.get(key)?.name ?? key)
        return keyed(
          key ?? '',
          html`
          ${name === null ? null : html`<h2 class="group" translate="no">${name} <span class="muted number">${numberWords(projects.length)}</span></h2>`}
          <svc-rows label="${name ?? t('Projects')}" .key="${keyOf}" .items="${projects}" .row="${row}"
            @keydown="${(event: Event) => this.#pressed(event as KeyboardEvent)}"></svc-rows>`
        )
      })}`
  }

  #pressed(event: KeyboardEvent): void {
    const { items, current } = event.currentTarget as SvcRows<Project>
    this.#choice.pressed(event, foundIn(this.listing).indexOf(items[current] as Project))
  }

  #finished(done: Said<'bulkdone'> | null): void {
    this.#done = done
    if (done !== null) this.#choice.set(done.failed)
    this.update()
  }
}

const foundIn = ({ groups }: ProjectListing): Project[] => groups.flatMap(({ projects }) => projects)
const keyOf = ({ id }: Project): string => id
const projectsWords = (count: number): string => countWords(count, 'project')
