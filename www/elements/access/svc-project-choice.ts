import { said } from '../events.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, keyed, type Template } from '../../dom/html.js'
import { numberWords, t } from '../../words/t.js'

/** A project to choose. */
export interface ChoosableProject {
  id: string
  name: string
}

/** Projects with a field that finds them: more would be slow to draw, and nobody scrolls through them. */
const mostShown = 200
/** With fewer projects, a field to find them would only be in the way. */
const fewProjects = 8

/**
 * Projects to choose from, with a field that finds them by name. Properties: `projects`; `chosen`, their ids; `most`, the
 * number that can be chosen. Event: `projectchoice`.
 */
export class SvcProjectChoice extends SvcElement {
  static override sheet = css`
    svc-project-choice {
      display: grid;
      gap: 8px;
      grid-template-columns: minmax(0, 1fr);

      .list {
        max-height: 196px;
        overflow-y: auto;
        padding: 4px 0;
        border: 1px solid var(--edge);
        border-radius: var(--radius);
        overscroll-behavior: contain;
      }
      .list label { display: grid; grid-template-columns: 16px minmax(0, 1fr); gap: 10px; align-items: center; min-height: 32px; padding: 4px 12px; cursor: pointer; }
      .list label:hover { background: var(--hover); }
      .list span { overflow-wrap: anywhere; }
      .list p { padding: 6px 12px; }
      .foot { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 4px 12px; }
      .foot button { min-height: 28px; padding: 2px 8px; font-size: var(--size-13); }
    }
  `

  projects: readonly ChoosableProject[] = []
  chosen: readonly string[] = []
  most = Infinity
  #text = ''

  protected override view(): Template {
    const sought = this.#text.trim().toLowerCase()
    const found = this.projects.filter(({ name }) => name.toLowerCase().includes(sought))
    const isFull = this.chosen.length >= this.most
    return html`
      ${
        this.projects.length < fewProjects
          ? null
          : html`
          <input type="search" aria-label="${t('Find projects')}" placeholder="${t('Find projects')}" autocomplete="off"
            spellcheck="false" .value="${this.#text}" @keydown="${keepForm}"
            @input="${(event: Event) => this.#find((event.currentTarget as HTMLInputElement).value)}">`
      }
      <div class="list" role="group" aria-label="${t('Projects')}">
        ${found.slice(0, mostShown).map(project => keyed(project.id, this.#row(project, isFull)))}
        ${found.length === 0 ? html`<p class="muted small">${t('Nothing found')}</p>` : null}
        ${
          found.length > mostShown
            ? html`<p class="muted small">${t('{count} more. Type a name to find them.', { count: numberWords(found.length - mostShown) })}</p>`
            : null
        }
      </div>
      <div class="foot">
        <span class="muted small number" role="status">${t('{count} of {all} chosen', { count: numberWords(this.chosen.length), all: numberWords(this.projects.length) })}</span>
        ${
          this.chosen.length === 0
            ? null
            : html`<button type="button" class="quiet" @click="${() => this.#choose([])}">${t('Choose none')}</button>`
        }
      </div>`
  }

  #row({ id, name }: ChoosableProject, isFull: boolean): Template {
    const isChosen = this.chosen.includes(id)
    const change = (): void => this.#choose(isChosen ? this.chosen.filter(each => each !== id) : [...this.chosen, id])
    return html`
      <label>
        <input type="checkbox" .checked="${isChosen}" disabled="${isFull && !isChosen}" @change="${change}">
        <span translate="no">${name}</span>
      </label>`
  }

  #find(text: string): void {
    this.#text = text
    this.update()
  }

  #choose(ids: readonly string[]): void {
    this.dispatchEvent(said('projectchoice', { ids }))
  }
}

/** Enter in the field that finds projects does not submit the form. */
function keepForm(event: Event): void {
  if ((event as KeyboardEvent).key === 'Enter') event.preventDefault()
}
