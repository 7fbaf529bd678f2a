import type { Project } from '../../lib/model/project.js'
import type { AdminCalls } from '../server/admin-calls.js'
import type { Client } from '../server/client.js'
import { css, SvcElement } from '../dom/element.js'
import { html, icon, keyed } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { countWords, t } from '../words/t.js'
import { errorLine } from './field.js'
import { errorWords } from '../words/errors.js'

/** More of them need a field to find one. */
const fewProjects = 12
/** Of those that are found. */
const shownProjects = 200

/** Chooses what a package holds, and downloads it. Properties `calls`, `client`, `projects`. */
export class SvcExport extends SvcElement {
  static override sheet = css`
    svc-export {
      display: block;

      fieldset { display: grid; gap: 6px; min-width: 0; margin: 0; padding: 0; border: 0; }
      legend { padding: 0 0 6px; font-weight: 500; }
      .projects { display: grid; gap: 2px; max-height: 232px; overflow-y: auto; padding: 8px 12px; border: 1px solid var(--line); border-radius: var(--radius); }
      .projects .check { min-width: 0; }
      .recent { display: flex; flex-wrap: wrap; align-items: center; gap: 8px; }
      .recent input { width: 96px !important; }
    }
  `

  calls!: AdminCalls
  client!: Client
  #projects: readonly Project[] = []
  #isChoosing = false
  readonly #chosen = new Set<string>()
  #artifacts = true
  #logs = true
  #recent = ''
  #problem: string | null = null
  #isBusy = false
  #sought = ''

  set projects(projects: readonly Project[]) {
    this.#projects = projects
    this.update()
  }

  get projects(): readonly Project[] {
    return this.#projects
  }

  protected override view(): Template {
    const isNothing = this.#isChoosing && this.#chosen.size === 0
    return html`
      <form class="form" @submit="${(event: Event) => void this.#export(event)}">
        <fieldset>
          <legend>${t('Projects')}</legend>
          ${this.#radio(false, t('All of them'))}
          ${this.#radio(true, this.#isChoosing ? t('Only these: {count}', { count: countWords(this.#chosen.size, 'project') }) : t('Only some'))}
          ${this.#isChoosing
            ? html`
              ${this.#projects.length <= fewProjects
                ? null
                : html`
                  <input type="search" aria-label="${t('Find projects')}" placeholder="${t('Find projects')}" .value="${this.#sought}"
                    @input="${(event: Event) => this.#find((event.currentTarget as HTMLInputElement).value)}">`}
              <div class="projects">${this.#found().map(project => keyed(project.id, this.#project(project)))}</div>`
            : null}
        </fieldset>
        <fieldset>
          <legend>${t('With them')}</legend>
          ${this.#check(this.#artifacts, t('What was deployed last, as an archive'), isOn => (this.#artifacts = isOn))}
          ${this.#check(this.#logs, t('Deployments and their outputs'), isOn => (this.#logs = isOn))}
          <div class="recent">
            <label for="export-recent">${t('Of each project the last')}</label>
            <input id="export-recent" inputmode="numeric" placeholder="${t('all')}" .value="${this.#recent}" disabled="${!this.#logs}"
              @input="${(event: Event) => this.#setRecent((event.currentTarget as HTMLInputElement).value)}">
            <span class="muted small">${t('Empty: all')}</span>
          </div>
        </fieldset>
        <p class="muted small">${t('Settings, categories and tags are always in it. It holds deploy tokens: keep it as you keep passwords.')}</p>
        ${errorLine(this.#problem)}
        <div class="actions">
          <button class="primary" disabled="${this.#isBusy || isNothing}">${icon('download')}${t('Download the package')}</button>
        </div>
      </form>`
  }

  #radio(isChoosing: boolean, words: string): Template {
    const choose = (): void => {
      this.#isChoosing = isChoosing
      this.update()
    }
    return html`
      <label class="check">
        <input type="radio" name="scope" .checked="${this.#isChoosing === isChoosing}" @change="${choose}"><span>${words}</span>
      </label>`
  }

  #project({ id, name }: Project): Template {
    const toggle = (isOn: boolean): void => {
      if (isOn) this.#chosen.add(id)
      else this.#chosen.delete(id)
    }
    return this.#check(this.#chosen.has(id), name, toggle)
  }

  #check(isOn: boolean, words: string, set: (isOn: boolean) => void): Template {
    const change = (event: Event): void => {
      set((event.currentTarget as HTMLInputElement).checked)
      this.update()
    }
    return html`
      <label class="check">
        <input type="checkbox" .checked="${isOn}" @change="${change}"><span class="cut" title="${words}">${words}</span>
      </label>`
  }

  #find(text: string): void {
    this.#sought = text
    this.update()
  }

  #found(): readonly Project[] {
    const sought = this.#sought.trim().toLowerCase()
    return this.#projects.filter(({ name }) => name.toLowerCase().includes(sought)).slice(0, shownProjects)
  }

  #setRecent(text: string): void {
    this.#recent = text.trim()
    this.update()
  }

  async #export(event: Event): Promise<void> {
    event.preventDefault()
    this.#problem = null
    if (this.#recent !== '' && !/^\d{1,6}$/.test(this.#recent)) {
      this.#problem = t('“{text}” is not a number of deployments.', { text: this.#recent })
      return this.update()
    }
    this.#isBusy = true
    this.update()
    try {
      const query = new URLSearchParams({
        artifacts: String(this.#artifacts), logs: String(this.#logs)
      })
      if (this.#isChoosing) query.set('projects', [...this.#chosen].join(','))
      if (this.#logs && this.#recent !== '') query.set('recent', this.#recent)
      // A link of the browser's own: it streams to the disk, however large the package is.
      const link = document.createElement('a')
      link.href = this.client.address(`api/migration/export?${query}`)
      link.download = ''
      link.click()
    } catch (error) {
      this.#problem = errorWords(error)
    }
    this.#isBusy = false
    this.update()
  }
}
