import type { Project } from '../../lib/model/project.js'
import { Refused } from '../server/client.js'
import { css } from '../dom/css.js'
import { html, keyed } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { errorLine, field, submitted } from '../elements/field.js'
import { icon } from '../elements/icon.js'
import { loaded, staleLine } from '../elements/states.js'
import { SvcDialog } from '../elements/svc-dialog.js'
import { SvcStatus } from '../elements/svc-status.js'
import { SvcTime } from '../elements/svc-time.js'
import { errorWords } from '../elements/words.js'
import type { Resource } from '../state/resource.js'
import { Page } from './page.js'
import { countWords } from '../words/t.js'

const refreshMs = 10_000

/** All projects. Query `q`: words to find; `new`: the dialog that creates one is open. */
export class ProjectsPage extends Page {
  static override sheet = css`
    svc-page-projects {
      .tools { display: flex; gap: 8px; flex: 1 1 320px; justify-content: flex-end; }
      .tools search { position: relative; flex: 0 1 280px; min-width: 0; }
      .tools search .icon {
        position: absolute;
        left: 10px;
        top: calc(50% - 8px);
        color: var(--muted);
        pointer-events: none;
      }
      .tools search input { padding-left: 34px; }

      .list a {
        display: grid;
        grid-template-columns: minmax(0, 1fr) minmax(0, 1fr) 110px 130px 16px;
        align-items: center;
        gap: 4px 16px;
        min-height: 56px;
        padding: 8px 16px;
        color: inherit;
      }
      .list li + li { border-top: 1px solid var(--line); }
      .list a:hover { background: var(--hover); text-decoration: none; }
      .list a:focus-visible { outline-offset: -2px; border-radius: 8px; }
      .list li:first-child a { border-radius: 7px 7px 0 0; }
      .list li:last-child a { border-radius: 0 0 7px 7px; }
      .list li:only-child a { border-radius: 7px; }
      .name { display: grid; min-width: 0; }
      .name b { font-weight: 500; }
      .list svc-time, .list .name span, .list code { color: var(--muted); font-size: var(--size-13); }
      .list a > .icon { color: var(--muted); }
      /* The start of a path says less than its end. */
      .list code { direction: rtl; text-align: left; }
      .list code bdi { unicode-bidi: plaintext; }

      @media (max-width: 719px) {
        .page-head .tools { flex-basis: 100%; }
        .tools search { flex: 1; }
        .list a { grid-template-columns: minmax(0, 1fr) auto 16px; padding-block: 12px; }
        .list code { display: none; }
        .list svc-time { grid-column: 1; grid-row: 2; }
        .list svc-status { grid-column: 2; grid-row: 1 / 3; }
        .list a > .icon { grid-column: 3; grid-row: 1 / 3; }
      }
    }
  `

  #projects!: Resource<Project[]>
  #refusal: unknown = null
  #isCreating = false

  protected override connected(): void {
    this.entitle('Projects', [{ words: 'Projects' }])
    this.#projects = this.resource(signal => this.context.calls.projects(signal))
    this.repeat(refreshMs, () => void this.#projects.load())
  }

  get #isDialogOpen(): boolean {
    return this.place.query.has('new')
  }

  protected override view(): Template {
    const query = this.place.query.get('q') ?? ''
    return html`
      <div class="page-head">
        <div><h1>Projects</h1></div>
        <div class="tools">
          <search>
            ${icon('search')}
            <input type="search" aria-label="Find projects" placeholder="Find projects" .value="${query}"
              @input="${(event: Event) => this.#find((event.currentTarget as HTMLInputElement).value)}">
          </search>
          <a class="button primary" href="projects?new">${icon('plus')}New project</a>
        </div>
      </div>
      ${staleLine(this.#projects)}
      <div class="card">${loaded(this.#projects, 'the projects', projects => this.#list(projects, query))}</div>
      <svc-dialog heading="New project" .content="${this.#isDialogOpen ? this.#form() : null}"
        @dialogclose="${() => this.#close()}"></svc-dialog>`
  }

  #list(projects: Project[], query: string): Template {
    if (projects.length === 0) {
      return html`
        <div class="state">
          <h2>No projects yet</h2>
          <p class="muted">
            A project is a directory on this server, and the scripts that run before and after files arrive in it.
          </p>
          <a class="button" href="projects?new">${icon('plus')}New project</a>
        </div>`
    }
    const found = projects.filter(project => matches(project, query))
    if (found.length === 0) {
      return html`
        <div class="state">
          <h2>Nothing found</h2>
          <p class="muted anywhere">
            None of ${countWords(projects.length, 'project')} has “${query}” in its name, description, path or
            environment.
          </p>
          <button type="button" @click="${() => this.#find('')}">Show all</button>
        </div>`
    }
    return html`<ul class="list">${found.map(project => keyed(project.id, rowOf(project)))}</ul>`
  }

  #find(query: string): void {
    this.context.go(query === '' ? 'projects' : `projects?${new URLSearchParams({ q: query })}`, { isReplacing: true })
  }

  #close(): void {
    this.#refusal = null
    this.context.go('projects', { isReplacing: true })
  }

  #form(): Template {
    const refusal = this.#refusal
    const errorOf = (name: string): string | undefined =>
      refusal instanceof Refused && refusal.field === name ? refusal.message : undefined
    const isOfField = refusal instanceof Refused && formFields.has(refusal.field ?? '')
    return html`
      <form class="form" @submit="${(event: Event) => void this.#create(event)}">
        ${field({
          form: 'new', name: 'name', label: 'Name', placeholder: 'storefront', isRequired: true, hasFocus: true,
          error: errorOf('name')
        })}
        ${field({
          form: 'new', name: 'deployPath', label: 'Directory on the server', placeholder: '/srv/storefront',
          isRequired: true, isMono: true, error: errorOf('deployPath'),
          hint: 'Absolute. It is created with the first deployment if it is missing.'
        })}
        ${field({ form: 'new', name: 'env', label: 'Environment', placeholder: 'production', error: errorOf('env') })}
        ${field({ form: 'new', name: 'description', label: 'Description', error: errorOf('description') })}
        ${errorLine(refusal === null || isOfField ? null : errorWords(refusal))}
        <div class="actions end">
          <button type="button" @click="${() => this.#close()}">Cancel</button>
          <button class="primary" disabled="${this.#isCreating}">
            ${this.#isCreating ? 'Creating…' : 'Create project'}
          </button>
        </div>
      </form>`
  }

  async #create(event: Event): Promise<void> {
    const { name = '', deployPath = '', env = '', description = '' } = submitted(event)
    this.#isCreating = true
    this.#refusal = null
    this.update()
    try {
      const project = await this.context.calls.createProject({
        name: name.trim(),
        deployPath: deployPath.trim(),
        ...(env.trim() === '' ? {} : { env: env.trim() }),
        ...(description.trim() === '' ? {} : { description: description.trim() })
      })
      this.context.go(`projects/${project.id}`, { isReplacing: true })
    } catch (error) {
      this.#refusal = error
    }
    this.#isCreating = false
    this.update()
  }
}

const formFields = new Set(['name', 'deployPath', 'env', 'description'])

function matches(project: Project, query: string): boolean {
  const text = `${project.name} ${project.description} ${project.deployPath} ${project.env}`.toLowerCase()
  return query.toLowerCase().split(/\s+/).every(word => text.includes(word))
}

function rowOf(project: Project): Template {
  return html`
    <li>
      <a href="projects/${project.id}">
        <span class="name">
          <b class="cut">${project.name}</b>
          <span class="cut">${[project.env, project.description].filter(Boolean).join(' · ')}</span>
        </span>
        <code class="cut"><bdi>${project.deployPath}</bdi></code>
        <svc-status state="${project.status}"></svc-status>
        ${project.lastDeployAt === null
          ? html`<span></span>`
          : html`<svc-time at="${project.lastDeployAt}"></svc-time>`}
        ${icon('next')}
      </a>
    </li>`
}

export const elements = {
  'svc-page-projects': ProjectsPage,
  'svc-dialog': SvcDialog,
  'svc-status': SvcStatus,
  'svc-time': SvcTime
}
