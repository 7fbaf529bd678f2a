import type { Project } from '../../lib/model/project.js'
import type { DeploymentPage } from '../server/calls.js'
import { css } from '../dom/css.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { tabLinks } from '../elements/room-tabs.js'
import { loaded, staleLine } from '../elements/states.js'
import { SvcCopy } from '../elements/svc-copy.js'
import { SvcDeployments } from '../elements/svc-deployments.js'
import { SvcDialog } from '../elements/svc-dialog.js'
import { SvcLog } from '../elements/svc-log.js'
import { ProjectChangeEvent, ProjectDeletedEvent, SvcProjectSettings } from '../elements/svc-project-settings.js'
import { SvcProjectDeploy } from '../elements/svc-project-deploy.js'
import { SvcStatus } from '../elements/svc-status.js'
import { SvcSpan, SvcTime } from '../elements/svc-time.js'
import { SvcUpload } from '../elements/svc-upload.js'
import type { Resource } from '../state/resource.js'
import { t } from '../words/t.js'
import { Page } from './page.js'

const refreshMs = 4000
const shownDeployments = 20

/** One project: deploy to it and see its history; under `/settings` its scripts, its token, its end. */
export class ProjectPage extends Page {
  static override sheet = css`
    svc-page-project {
      .facts { display: flex; flex-wrap: wrap; gap: 2px 16px; color: var(--muted); align-items: center; }
    }
  `

  #project!: Resource<Project>
  #deployments!: Resource<DeploymentPage>

  protected override connected(): void {
    const id = this.place.params['id'] as string
    const { calls } = this.context
    this.entitle('Project', [{ words: 'Projects', address: 'projects' }])
    this.#project = this.resource(signal => calls.project(id, signal))
    this.#deployments = this.resource(signal => calls.deployments({ projectId: id, limit: shownDeployments }, signal))
    this.repeat(refreshMs, () => this.#reload())
  }

  #reload(): void {
    void this.#deployments.load()
    // The form of the settings is the reader's while it is open.
    if (!this.#isSettings) void this.#project.load()
  }

  get #isSettings(): boolean {
    return this.place.row.path.endsWith('/settings')
  }

  protected override view(): Template {
    return html`${loaded(this.#project, 'the project', project => this.#page(project))}`
  }

  #page(project: Project): Template {
    const address = `projects/${project.id}`
    const name = { words: project.name }
    const way = [{ words: 'Projects', address: 'projects' }]
    const settings = [...way, { ...name, address }, { words: 'Settings' }]
    if (this.#isSettings) this.entitle(`${project.name} · settings`, settings)
    else this.entitle(project.name, [...way, name])
    const status = this.#deployments.value?.items[0]?.status ?? project.status
    return html`
      <div class="page-head">
        <div>
          <h1>${project.name}</h1>
          <p class="facts">
            <svc-status state="${status}"></svc-status>
            <span>${project.env}</span>
            <code class="anywhere">${project.deployPath}</code>
          </p>
          ${project.description === '' ? null : html`<p class="muted anywhere">${project.description}</p>`}
        </div>
      </div>
      ${tabLinks(t('Project'), [
        { address, words: 'Deployments' },
        { address: `${address}/settings`, words: 'Settings' }
      ], this.#isSettings ? `${address}/settings` : address)}
      ${staleLine(this.#project)}
      ${this.#isSettings ? this.#settings(project) : this.#deploy(project)}`
  }

  #deploy(project: Project): Template {
    return html`
      <svc-project-deploy .project="${project}" .client="${this.context.client}"
        @deploystarted="${() => this.#reload()}"
        @deployed="${() => this.#reload()}"></svc-project-deploy>
      <section class="section">
        <div class="section-head">
          <h2>History</h2>
          ${(this.#deployments.value?.total ?? 0) > shownDeployments
            ? html`<a href="deployments?project=${project.id}">All ${this.#deployments.value?.total} deployments</a>`
            : null}
        </div>
        <div class="card">
          ${loaded(this.#deployments, 'the history', ({ items }) => items.length === 0
            ? html`<div class="state"><p class="muted">Nothing has been deployed here yet.</p></div>`
            : html`<svc-deployments single="" .items="${items}"></svc-deployments>`)}
        </div>
      </section>`
  }

  #settings(project: Project): Template {
    return html`
      <svc-project-settings .project="${project}" .calls="${this.context.calls}"
        @projectchange="${(event: Event) => this.#project.set((event as ProjectChangeEvent).project)}"
        @projectdeleted="${(event: Event) => this.#deleted(event as ProjectDeletedEvent)}"></svc-project-settings>`
  }

  #deleted({ name }: ProjectDeletedEvent): void {
    this.notify(`${name} was deleted`)
    this.context.go('projects', { isReplacing: true })
  }
}

export const elements = {
  'svc-page-project': ProjectPage,
  'svc-project-deploy': SvcProjectDeploy,
  'svc-project-settings': SvcProjectSettings,
  'svc-copy': SvcCopy,
  'svc-deployments': SvcDeployments,
  'svc-dialog': SvcDialog,
  'svc-log': SvcLog,
  'svc-status': SvcStatus,
  'svc-span': SvcSpan,
  'svc-time': SvcTime,
  'svc-upload': SvcUpload
}
