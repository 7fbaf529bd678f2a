import type { ShownProject as Project } from '../../../lib/model/project.js'
import type { Client } from '../../server/client.js'
import { download } from '../../dom/address.js'
import { css, SvcElement } from '../element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { countWords, t, errorWords } from '../../words/t.js'
import { errorLine } from '../base/form.js'

/** With more projects than this, a search field is shown. */
const fewProjects = 12
/** Maximum number of projects shown. */
const shownProjects = 200

/** Chooses the contents of a package and downloads it. Properties: `client`, `projects`. */
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

  client!: Client
  projects: readonly Project[] = []
  #isChoosing = false
  readonly #chosen = new Set<string>()
  #artifacts = true
  #logs = true
  #recent = ''
  #problem: string | null = null
  #isBusy = false
  #sought = ''

  protected override view(): Template {
    const isNothing = this.#isChoosing && this.#chosen.size === 0
    return html`
      <form class="form" @submit="${(event: Event) => void this.#export(event)}">
        <fieldset>
          <legend>${t('Projects')}</legend>
          ${this.#radio(false, t('All projects'))}
          ${this.#radio(true, this.#isChoosing ? t('Selected: {count}', { count: countWords(this.#chosen.size, 'project') }) : t('Selected projects'))}
          ${
            this.#isChoosing
              ? html`
              ${
                this.projects.length <= fewProjects
                  ? null
                  : html`
                  <input type="search" aria-label="${t('Find projects')}" placeholder="${t('Find projects')}" .value="${this.#sought}"
                    @input="${(event: Event) => this.#find((event.currentTarget as HTMLInputElement).value)}">`
              }
              <div class="projects">${this.#found().map(project => keyed(project.id, this.#project(project)))}</div>`
              : null
          }
        </fieldset>
        <fieldset>
          <legend>${t('Include')}</legend>
          ${this.#check(this.#artifacts, t('Last deployed archive'), isOn => (this.#artifacts = isOn))}
          ${this.#check(this.#logs, t('Deployments and outputs'), isOn => (this.#logs = isOn))}
          <div class="recent">
            <label for="export-recent">${t('Deployments per project')}</label>
            <input id="export-recent" inputmode="numeric" placeholder="${t('all')}" .value="${this.#recent}" disabled="${!this.#logs}"
              @input="${(event: Event) => this.#setRecent((event.currentTarget as HTMLInputElement).value)}">
            <span class="muted small">${t('Empty for all')}</span>
          </div>
        </fieldset>
        <p class="muted small">${t('Settings, categories and tags are always included. The package contains deploy tokens: store it like a password.')}</p>
        ${errorLine(this.#problem)}
        <div class="actions">
          <button class="primary" disabled="${this.#isBusy || isNothing}">${icon('download')}${t('Download package')}</button>
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
    return this.projects.filter(({ name }) => name.toLowerCase().includes(sought)).slice(0, shownProjects)
  }

  #setRecent(text: string): void {
    this.#recent = text.trim()
    this.update()
  }

  async #export(event: Event): Promise<void> {
    event.preventDefault()
    this.#problem = null
    if (this.#recent !== '' && !/^\d{1,6}$/.test(this.#recent)) {
      this.#problem = t('“{text}” is not a valid number of deployments.', { text: this.#recent })
      return this.update()
    }
    this.#isBusy = true
    this.update()
    try {
      const query = new URLSearchParams({
        artifacts: String(this.#artifacts),
        logs: String(this.#logs)
      })
      if (this.#isChoosing) query.set('projects', [...this.#chosen].join(','))
      if (this.#logs && this.#recent !== '') query.set('recent', this.#recent)
      await this.client.ensureProven()
      // A link lets the browser stream the package to the disk, however large it is.
      download(this.client.address(`api/migration/export?${query}`), '')
    } catch (error) {
      this.#problem = errorWords(error)
    }
    this.#isBusy = false
    this.update()
  }
}
