import type { Project } from '../../../lib/model/project.js'
import type { Labels, ProjectCalls } from '../../server/project-calls.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon } from '../../dom/html.js'
import type { Template } from '../../dom/html.js'
import { countWords, numberWords, t } from '../../words/t.js'
import { errorLine } from '../base/field.js'
import type { LabelTable } from '../base/label-list.js'
import { projectRow } from './project-row.js'
import { createSelection } from '../base/selection.js'
import type { BulkDoneEvent } from './svc-project-bulk.js'
import type { SvcRows } from '../base/svc-rows.js'
import { serverWords, twoLines } from '../../words/errors.js'
import { may } from '../../state/rights.js'

/** The reader pins or unpins a project. */
export class PinEvent extends Event {
  constructor(readonly project: Project) {
    super('projectpin', { bubbles: true })
  }
}

declare global {
  interface HTMLElementEventMap {
    projectpin: PinEvent
  }
}

/** The contents of the list. */
export interface ProjectListing {
  /** All existing projects. */
  all: readonly Project[]
  /** The visible projects in order; at least one. */
  found: readonly Project[]
  labels: Labels
  table: LabelTable
}

/**
 * The projects as rows, and the actions on chosen ones. Properties: `listing`, `calls`. Events: `projectpin`;
 * `bulkdone`, whose failures are listed here. Keys: Space chooses, Shift with Up or Down extends the choice, Ctrl-A
 * chooses all, Escape none; also those of svc-rows.
 */
export class SvcProjectList extends SvcElement {
  static override sheet = css`
    svc-project-list {
      display: block;

      .head {
        position: sticky;
        top: 0;
        z-index: 3;
        display: flex;
        flex-wrap: wrap;
        align-items: center;
        gap: 8px 16px;
        min-height: 48px;
        padding: 5px 16px;
        border-bottom: 1px solid var(--line);
        border-radius: 7px 7px 0 0;
        background: var(--raised);
      }
      .head a { font-size: var(--size-13); }
      .head p { color: var(--muted); font-size: var(--size-13); }
      .head svc-project-bulk { flex: 1; }

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
      .row:hover { background: var(--hover); }
      .row.chosen { background: var(--accent-quiet); }
      .row > input { position: relative; z-index: 1; }
      .row > a { display: grid; min-width: 0; color: inherit; }
      .row > a:hover { text-decoration: none; }
      /* The whole row is a link. */
      .row > a::after { content: ''; position: absolute; inset: 0; }
      /* Visible with forced colours; otherwise the outline is around the row. */
      .row > a:focus-visible { outline-color: transparent; }
      .row > a:focus-visible::after { outline: 2px solid var(--accent); outline-offset: -2px; border-radius: 6px; }
      .row b { font-weight: 500; }
      .row a span, .row code, .row svc-time { color: var(--muted); font-size: var(--size-13); }
      .row .labels { display: flex; align-items: center; gap: 4px; min-width: 0; overflow: hidden; }
      .row .labels svc-label { flex: 0 1 auto; }
      .row .labels svc-label[kind='category'] { flex: none; max-width: 55%; }
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

      .failures { position: relative; display: grid; gap: 8px; padding: 12px 48px 12px 16px; }
      .failures ul { display: grid; gap: 4px; max-height: 200px; overflow-y: auto; }
      .failures li { overflow-wrap: anywhere; font-size: var(--size-13); }
      .failures b { margin-right: 8px; font-weight: 500; }
      .failures > button { position: absolute; top: 4px; right: 4px; padding: 4px; min-width: var(--row); }

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
        .row .labels { grid-area: 2 / 2; }
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

  calls!: ProjectCalls
  listing!: ProjectListing
  #selection = createSelection()
  #failed: BulkDoneEvent['failed'] = []

  protected override changed(name: string): void {
    if (name !== 'listing') return
    const ids = new Set(this.listing.all.map(keyOf))
    const gone = [...this.#selection.ids].some(id => !ids.has(id))
    if (gone) this.#selection.set([...this.#selection.ids].filter(id => ids.has(id)))
  }

  protected override view(): Template {
    const { found, table } = this.listing
    const row = (project: Project, { isCurrent }: { isCurrent: boolean }): Template =>
      projectRow(project, {
        labels: table,
        isCurrent,
        isChosen: this.#selection.ids.has(project.id),
        onChoose: event => this.#choose(project.id, event.shiftKey),
        onPin: () => this.dispatchEvent(new PinEvent(project))
      })
    return html`
      ${this.#head()}${this.#failures()}
      <svc-rows label="${t('Projects')}" .key="${keyOf}" .items="${found}" .row="${row}"
        @keydown="${(event: Event) => this.#pressed(event as KeyboardEvent)}"></svc-rows>`
  }

  /** Returns the head of the list, or the actions on the chosen projects. */
  #head(): Template {
    const { all, found, labels } = this.listing
    const chosen = all.filter(({ id }) => this.#selection.ids.has(id))
    const seen = found.filter(({ id }) => this.#selection.ids.has(id)).length
    const isAll = seen === found.length
    const whole = countWords(all.length, 'project')
    const count =
      found.length === all.length ? whole : t('{count} of {all}', { count: numberWords(found.length), all: whole })
    return html`
      <div class="head">
        ${
          may('change_projects')
            ? html`
            <input type="checkbox" aria-label="${t('Choose all shown')}" .checked="${isAll}"
              .indeterminate="${seen > 0 && !isAll}" @change="${() => this.#chooseAll(isAll ? [] : found)}">`
            : null
        }
        <p class="number" role="status">
          ${chosen.length === 0 ? count : t('{projects} chosen', { projects: countWords(chosen.length, 'project') })}
        </p>
        ${chosen.length > 0 || found.length === all.length ? null : html`<a href="projects">${t('Show all')}</a>`}
        ${
          chosen.length === 0
            ? null
            : html`
            <svc-project-bulk .projects="${chosen}" .labels="${labels}" .calls="${this.calls}"
              @bulkdone="${(event: Event) => this.#done(event as BulkDoneEvent)}"></svc-project-bulk>
            <button type="button" class="quiet" @click="${() => this.#chooseAll([])}">${t('Choose none')}</button>`
        }
      </div>`
  }

  #failures(): Template | null {
    const failed = this.#failed
    if (failed.length === 0) return null
    const projects = countWords(failed.length, 'project')
    return html`
      <div class="failures" role="alert">
        ${errorLine(t('Could not change {projects} (still chosen):', { projects }))}
        <ul>${failed.map(({ name, error }) => html`<li><b>${name}</b>${twoLines(serverWords(error))}</li>`)}</ul>
        <button type="button" class="quiet" aria-label="${t('Close list')}" @click="${() => this.#failuresRead()}">
          ${icon('close')}
        </button>
      </div>`
  }

  #choose(id: string, isRange: boolean): void {
    if (!may('change_projects')) return
    if (isRange) this.#selection.extend(id, this.listing.found.map(keyOf))
    else this.#selection.toggle(id)
    this.update()
  }

  #chooseAll(projects: readonly Project[]): void {
    if (!may('change_projects')) return
    this.#selection.set(projects.map(keyOf))
    this.update()
  }

  #pressed(event: KeyboardEvent): void {
    const rows = event.currentTarget as SvcRows<Project>
    const { key, ctrlKey, metaKey, shiftKey } = event
    const isOnLink = (event.target as HTMLElement).closest('button, input') === null
    const current = this.listing.found[rows.current]
    if (key === 'a' && (ctrlKey || metaKey)) this.#chooseAll(this.listing.found)
    else if (key === 'Escape' && this.#selection.ids.size > 0) this.#chooseAll([])
    else if (key === ' ' && isOnLink && current !== undefined) this.#choose(current.id, shiftKey)
    else {
      if (shiftKey && (key === 'ArrowDown' || key === 'ArrowUp')) this.#extend(rows, key === 'ArrowDown' ? 1 : -1)
      // The list itself moves the focus.
      return
    }
    event.preventDefault()
  }

  /** Chooses the current row and the row that is reached next. */
  #extend(rows: SvcRows<Project>, step: number): void {
    // The list moves the focus after this, because its own listener was added later.
    if (!may('change_projects')) return
    for (const index of [rows.current, rows.current + step]) {
      const project = this.listing.found[index]
      if (project !== undefined && !this.#selection.ids.has(project.id)) this.#selection.toggle(project.id)
    }
    this.update()
  }

  #done({ failed }: BulkDoneEvent): void {
    this.#failed = failed
    this.#selection.set(failed.map(({ id }) => id))
    this.update()
  }

  #failuresRead(): void {
    this.#failed = []
    this.update()
  }
}

const keyOf = ({ id }: Project): string => id
