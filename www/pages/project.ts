import { type Labels, type Restriction, readLabels } from '../server/requests.js'
import { serverNow } from '../server/client.js'
import { type Said, css, type Wish } from '../elements/element.js'
import type { ListedPlacement } from '../../lib/model/node.js'
import type { ListedRollout } from '../../lib/model/rollout.js'
import type { TreeSummary } from '../../lib/model/plan.js'
import type { ShownProject as Project } from '../../lib/model/project.js'
import type { ListedDeployment } from '../../lib/model/deployment.js'
import type { ProjectOverview } from '../../lib/model/health.js'
import { panelPath } from '../dom/address.js'
import { html, icon, type Template } from '../dom/html.js'
import { fileAddress, onNodes, projectTabs, type ElementTable, isUnknown, missingProject, Page } from './page.js'
import {
  labelList,
  SvcBackgroundFailure,
  SvcCopy,
  SvcLabel,
  SvcMarked,
  SvcSpan,
  SvcStatus,
  SvcTime
} from '../elements/base/facts.js'
import { decisionPath, waitingOf } from '../shared/api.js'
import type { Waiting } from '../../lib/model/marks.js'
import { inForce, isGoing, projectStatus, waitingWords, wayBackOf } from '../elements/base/words.js'
import { loaded, type Resource, staleLine } from '../state/resource.js'
import { SvcDialog } from '../elements/base/form.js'
import { countWords, numberWords, t } from '../words/t.js'
import { hasFleet, holderNow, isLookingAtNode, may } from '../state/session.js'

/** Interval at which expired locks disappear from the page. */
const expiryCheckMs = 10_000

/** Interval at which the nodes of a placed project are looked at. */
const placedMs = 5000
/** Rollouts that the page shows. */
const shownRollouts = 5

type Tab = 'deployments' | 'files' | 'nodes' | 'settings'

/** The modules of the tabs. A visitor of one does not load the others. */
const late: Record<Tab, () => Promise<{ elements: ElementTable }>> = {
  deployments: () => import('../elements/projects/project-deployments.js'),
  files: () => import('../elements/projects/svc-files.js'),
  nodes: () => import('../elements/fleet/svc-project-nodes.js'),
  settings: () => import('../elements/projects/svc-project-settings.js')
}

const loadForm = () => import('../elements/deployments/svc-project-deploy.js')
const loadLocks = () => import('../elements/projects/svc-locks.js')
const loadPm2 = () => import('../elements/machine/svc-pm2.js')

/**
 * The page of a project: the live deployment, running and broken ones, the history, and ways to deploy. Below `/files`
 * the files of its target (query `path`), below `/nodes` its nodes, below `/settings` its settings and its token. `do` opens a
 * dialog: `deploy`, `lock`, `maintain`, and that of a deployment: `roll_back`, `promote`.
 */
export class ProjectPage extends Page {
  static override sheet = css`
    svc-page-project {
      .facts { display: flex; flex-wrap: wrap; gap: 4px 16px; color: var(--muted); align-items: center; }
      .facts .labels { display: flex; flex-wrap: wrap; gap: 4px; align-items: center; min-width: 0; max-width: 100%; }
      .facts .labels:not(:has(svc-label)) { display: none; }
      .page-head > .actions { margin-top: 2px; }
      @media (min-width: 720px) {
        .page-head { flex-wrap: nowrap; }
        .page-head > .actions { flex: none; }
      }
      .deploy > svc-project-deploy { padding: 16px 16px 20px; }
    }
  `

  #locks!: Resource<readonly Restriction[]>
  /** Undefined until it is known that the project has files on this server, and for a project on nodes. */
  #tree: Resource<TreeSummary> | undefined
  /** Null on a server without nodes. */
  #placements: Resource<ListedPlacement[]> | null = null
  #rollouts: Resource<ListedRollout[]> | undefined
  #project!: Resource<Project>
  #labels!: Resource<Labels>
  #overview!: Resource<ProjectOverview>
  #isDeploying = false
  /** Whether the page itself shows the ways to deploy: nothing was deployed yet when it was opened. */
  #isInPage: boolean | undefined
  #wish: Wish | null = null
  #loadedTabs = new Set<Tab>()

  protected override connected(): void {
    const id = this.place.params['id'] as string
    const { client } = this.context
    this.entitle(t('Project'), [{ words: t('Projects'), address: 'projects' }])
    this.#project = this.resource(signal => client.call('GET /api/projects/:id', { id, signal }))
    this.#labels = this.resource(signal => readLabels(this.context.client, signal))
    this.#overview = this.resource(signal => client.call('GET /api/projects/:id/overview', { id, signal }))
    if (hasFleet() && !isLookingAtNode()) this.#findNodes(id)
    this.#locks = this.resource(signal =>
      this.context.client.call('GET /api/locks', { query: { kind: 'all', projectId: id ?? undefined }, signal })
    )
    // The other tabs have no place for another request: the frame follows them soon.
    if (this.#tab === 'deployments') this.followMarks()
    else this.context.marks.hear(() => this.update(), this.signal)
    this.follow(['locks'], () => void this.#locks.refresh())
    // Locks expire without a write of the server.
    this.every(expiryCheckMs, () => {
      if (this.#locks.value?.length) this.update()
    })
    this.follow(['projects', 'deployments'], () => this.#reload())
    this.listen(this.context.connection, 'change', () => this.update())
    this.moved()
  }

  protected override moved(): void {
    this.#wish = this.takeWish(panelPath`projects/${this.place.params['id']}`) ?? this.#wish
    const tab = this.#tab
    if (this.#isHere) this.#findTree(this.place.params['id'] as string)
    if (this.#loadedTabs.has(tab)) return
    void this.attempt(async () => {
      this.context.define((await late[tab]()).elements)
      this.#loadedTabs.add(tab)
    })
  }

  /** Finds out where the project is. A placed one has no files on this server. */
  #findNodes(id: string): void {
    this.#placements = this.resource(async signal => {
      const { placements } = await this.context.client.call('GET /api/projects/:id/placements', { id, signal })
      if (placements.length === 0) this.#findTree(id)
      if (placements.length > 0) {
        this.#tree = undefined
        this.#rollouts ??= this.resource(
          async signal =>
            (
              await this.context.client.call('GET /api/rollouts', {
                query: { projectId: id, limit: shownRollouts },
                signal
              })
            ).rollouts
        )
        // The list of a project's rollouts needs its marks, whichever tab is shown.
        if (!this.#loadedTabs.has('nodes')) this.context.define((await late.nodes()).elements)
      }
      return placements
    })
    this.repeat(placedMs, () => {
      if (!this.#isPlaced) return
      void this.#placements?.refresh()
      void this.#rollouts?.refresh()
    })
  }

  /** Looks for what svc put into the target. Only the tab of the deployments shows it. */
  #findTree(id: string): void {
    if (this.#tree !== undefined || this.#tab !== 'deployments') return
    this.#tree = this.resource(signal => this.context.client.call('GET /api/projects/:id/tree', { id, signal }))
    void this.#searchEdits(id)
  }

  /** Whether the project is known to be deployed on this server: then its application runs here. */
  get #isHere(): boolean {
    return this.#placements === null || this.#placements.value?.length === 0
  }

  /** Whether the project is rolled out to nodes. */
  get #isPlaced(): boolean {
    return (this.#placements?.value?.length ?? 0) > 0
  }

  /** Searches for edited files, which may take a while. Without the result, the page is complete all the same. */
  async #searchEdits(id: string): Promise<void> {
    const { signal } = this
    const summary = await this.context.client
      .call('GET /api/projects/:id/tree', { id, query: { drift: '1' }, signal })
      .catch(() => null)
    if (summary !== null && !signal.aborted) this.#tree?.set(summary)
  }

  #reload(): void {
    void this.#overview.refresh()
    void this.#tree?.refresh()
    // Do not refresh while the user edits the settings.
    if (this.#tab !== 'settings') void this.#project.refresh()
  }

  get #tab(): Tab {
    const last = this.place.row.path.split('/').at(-1)
    return last === 'files' || last === 'nodes' || last === 'settings' ? last : 'deployments'
  }

  protected override view(): Template {
    if (this.#project.value === undefined && isUnknown(this.#project.error))
      return missingProject(this.place.params['id'] as string)
    return html`${loaded(this.#project, 'the project', project => this.#page(project))}`
  }

  #page(project: Project): Template {
    const address = panelPath`projects/${project.id}`
    this.#name(project, address)
    this.#isInPage ??= this.#overview.value === undefined ? undefined : this.#overview.value.deploymentCount === 0
    this.#grant()
    const status = this.#isLost ? 'unknown' : this.#status(project)
    const { categories = [], tags = [] } = this.#labels.value ?? {}
    const locks = inForce(this.#locks.value ?? [], serverNow())
    const labels = new Map([...categories, ...tags].map(label => [label.id, label]))
    return html`
      <div class="page-head">
        <div>
          <h1 translate="no">${project.name}</h1>
          <div class="facts">
            ${status === null ? null : html`<svc-status state="${status}"></svc-status>`}
            ${this.#waiting(project).map(
              each =>
                html`<a href="${decisionPath(each)}"><svc-marked words="${waitingWords(each, serverNow())}"></svc-marked></a>`
            )}
            <span translate="no">${project.env}</span>
            <span class="labels">${labelList(project, labels)}</span>
            ${this.#isPlaced ? html`<a href="${`${address}/nodes`}">${t('on {nodes}', { nodes: countWords(this.#placements?.value?.length ?? 0, 'node') })}</a>` : html`<code class="anywhere">${project.deployPath}</code>`}
          </div>
          ${project.description === '' ? null : html`<p class="muted anywhere" translate="no">${project.description}</p>`}
        </div>
        ${
          this.#tab !== 'deployments' || !this.#loadedTabs.has('deployments')
            ? null
            : html`
          <div class="actions" @lockschange="${() => void this.#locks.refresh()}">
            ${
              !may('maintain') ||
              this.#isPlaced ||
              this.#locks.value === undefined ||
              locks.some(({ kind }) => kind === 'maintenance')
                ? null
                : html`<svc-maintenance .projectId="${project.id}" .client="${this.context.client}" .wish="${this.#wish}"></svc-maintenance>`
            }
            ${
              !may('lock') ||
              this.#locks.value === undefined ||
              locks.some(({ kind, projectId }) => kind === 'lock' && projectId !== null)
                ? null
                : html`<svc-lock .projectId="${project.id}" .client="${this.context.client}" .wish="${this.#wish}"></svc-lock>`
            }
            ${
              this.#overview.value === undefined || this.#isInPage !== false || !may('deploy')
                ? null
                : html`
              <button type="button" class="primary" @click="${() => this.#deploying(true)}">${icon('deployments')}${t('Deploy…')}</button>`
            }
          </div>`
        }
      </div>
      ${
        locks.length === 0 || !this.late(loadLocks, true)
          ? null
          : html`
          <svc-locks single="" .items="${locks}" .client="${this.context.client}"
            @lockschange="${() => void this.#locks.refresh()}"></svc-locks>`
      }
      ${
        project.pm2AppName === null || !this.#isHere || !may('pm2') || !this.late(loadPm2, true)
          ? null
          : html`<svc-pm2 .projectId="${project.id}" .name="${project.pm2AppName}" .client="${this.context.client}"></svc-pm2>`
      }
      ${projectTabs(project.id, this.#tab === 'deployments' ? '' : this.#tab, { isPlaced: this.#isPlaced })}
      ${this.context.connection.state === 'lost' ? null : (staleLine(this.#overview) ?? staleLine(this.#project))}
      ${this.#loadedTabs.has(this.#tab) ? this.#inside(project) : null}`
  }

  protected override rendered(): void {
    // What could open has opened.
    if (this.#overview.value !== undefined && this.#locks.value !== undefined) this.#wish = null
  }

  #waiting({ id }: Project): Waiting[] {
    return this.context.marks.waiting.filter(({ projectId }) => projectId === id)
  }

  /** Returns the status; null: something is going on, and it is not known yet whether it waits. */
  #status(project: Project): string | null {
    const { broken, deployments } = this.#overview.value ?? {}
    if (broken?.goingId === null) return 'failed'
    const newest = deployments?.[0]
    const status = newest?.status ?? project.status
    if (newest !== undefined && waitingOf(newest) !== null) return 'waiting'
    if (newest === undefined && isGoing(project) && this.context.marks.waiting.length === 0) return null
    return projectStatus({ id: project.id, status }, this.context.marks)
  }

  /** Whether the shown data may be outdated because the connection is lost. */
  get #isLost(): boolean {
    return this.context.connection.state === 'lost' || this.#overview.error !== undefined
  }

  /** Opens the dialog that the address asks for, as soon as it is known where. */
  #grant(): void {
    const overview = this.#overview.value
    const what = this.#wish?.what
    if (overview === undefined || what === undefined || what === 'lock' || what === 'maintain') return
    this.#wish = null
    if (what === 'deploy') this.#isDeploying = may('deploy') && this.#isInPage === false
    if (what !== 'roll_back' && what !== 'promote') return
    const source = what === 'promote' ? overview.live : releaseBefore(overview)
    queueMicrotask(() => {
      if (source !== null) this.context.go(panelPath`deployments/${source.id}?do=${what}`, { isReplacing: true })
      else if (what === 'promote') this.notify(t('No release of this project is known to be live'), 'failed')
      else this.notify(t('There is no earlier release with an archive'), 'failed')
    })
  }

  #deploying(isDeploying: boolean): void {
    this.#isDeploying = isDeploying
    this.update()
  }

  #name(project: Project, address: string): void {
    const way = [{ words: t('Projects'), address: 'projects' }]
    if (this.#tab === 'deployments') return this.entitle(project.name, [...way, { words: project.name }])
    const words = { files: t('Files'), nodes: t('Nodes'), settings: t('Settings') }[this.#tab]
    this.entitle(`${project.name} · ${words}`, [...way, { words: project.name, address }, { words }])
  }

  #inside(project: Project): Template {
    if (this.#placements !== null && this.#tab !== 'settings')
      return html`${loaded(this.#placements, 'the nodes', placements => this.#withNodes(project, placements))}`
    if (this.#tab === 'files') return this.#files(project)
    return this.#tab === 'settings' ? this.#settings(project) : this.#deploy(project)
  }

  /** Shows a tab of a project on a server that has nodes. */
  #withNodes(project: Project, placements: readonly ListedPlacement[]): Template {
    if (this.#tab === 'nodes') {
      return html`
        <svc-project-nodes .project="${project}" .placements="${placements}" .rollouts="${this.#rollouts?.value ?? []}"
          .client="${this.context.client}" .define="${this.context.define}"
          @placed="${(event: Event) => this.#placements?.set((event as Said<'placed'>).placements)}"></svc-project-nodes>`
    }
    if (this.#tab === 'files') return placements.length > 0 ? onNodes('files', placements) : this.#files(project)
    return html`
      ${
        this.#rollouts?.value === undefined || this.#rollouts.value.length === 0
          ? null
          : html`
          <section class="section">
            <div class="section-head"><h2>${t('Last rollout')}</h2><a href="rollouts?project=${project.id}">${t('All rollouts')}</a></div>
            <div class="card"><svc-rollouts single="" .items="${this.#rollouts.value.slice(0, 1)}"></svc-rollouts></div>
          </section>`
      }
      ${this.#deploy(project)}`
  }

  #deploy(project: Project): Template {
    return html`
      ${loaded(this.#overview, 'the history', overview => this.#state(project, overview))}
      ${this.#overview.value === undefined || !may('deploy') ? null : this.#ways(project)}`
  }

  /** Shows the ways to deploy: before the first deployment in the page, later in a dialog. */
  #ways(project: Project): Template | null {
    const isInPage = this.#isInPage === true
    if (!this.late(loadForm, isInPage || this.#isDeploying)) return null
    const ways = html`
      <svc-project-deploy .project="${project}" .nodeCount="${this.#placements?.value?.length ?? 0}" .client="${this.context.client}" .signatures="${this.#overview.value?.signatures ?? null}"
        .define="${this.context.define}" .by="${holderNow()?.token?.name ?? 'admin'}"
        .isInPage="${isInPage}" .isOpen="${this.#isDeploying}" @dialogclose="${() => this.#deploying(false)}"
        @deploystarted="${(event: Event) => this.context.go(panelPath`deployments/${(event as Said<'deploystarted'>).deployId}`)}"></svc-project-deploy>`
    if (!isInPage) return ways
    return html`
      <section class="section">
        <h2>${t('Deploy to this project')}</h2>
        <div class="deploy card">${ways}</div>
      </section>`
  }

  /** Shows the live deployment, the running one, a failure, and the history. */
  #state(project: Project, overview: ProjectOverview): Template {
    const { broken, deployments, deploymentCount } = overview
    const going = deployments.filter(({ status }) => status === 'queued' || status === 'running')
    return html`
      <section class="section">
        <h2>${t('Live')}</h2>
        <svc-live class="card" .overview="${overview}"></svc-live>
        ${
          this.#tree?.value === undefined || overview.deploymentCount === 0
            ? null
            : html`
            <svc-owned class="card" .projectId="${project.id}" .client="${this.context.client}" .summary="${this.#tree.value}"
              @verified="${() => void this.#tree?.refresh()}"
              @begun="${(event: Event) => this.context.go(panelPath`deployments/${(event as Said<'begun'>).deployId}`)}"></svc-owned>`
        }
      </section>
      ${
        going.length === 0
          ? null
          : html`
          <section class="section">
            <h2>${t('In progress')}</h2>
            <div class="card"><svc-deployments single="" .items="${going}" .waiting="${this.context.marks.waiting}"></svc-deployments></div>
          </section>`
      }
      ${
        broken === null
          ? null
          : html`
          <section class="section">
            <h2>${this.#isLost ? t('Broken at the last response') : t('Broken now')}</h2>
            <svc-broken single="" .items="${[broken]}"></svc-broken>
          </section>`
      }
      ${
        deploymentCount === 0
          ? null
          : html`
          <section class="section">
            <div class="section-head">
              <h2>${t('History')}</h2>
              ${
                deploymentCount > deployments.length
                  ? html`<a href="deployments?project=${project.id}">${t('All {count} deployments', { count: numberWords(deploymentCount) })}</a>`
                  : null
              }
            </div>
            <div class="card"><svc-deployments single="" .items="${deployments}" .waiting="${this.context.marks.waiting}"></svc-deployments></div>
          </section>`
      }`
  }

  #files(project: Project): Template {
    const go = (event: Event): void => this.context.go(fileAddress(project.id, (event as Said<'filego'>).path))
    return html`
      <svc-files .project="${project}" .client="${this.context.client}" .path="${this.place.query.get('path') ?? ''}"
        @filego="${go}"></svc-files>`
  }

  #settings(project: Project): Template {
    return html`
      <svc-project-settings .project="${project}" .context="${this.context}" .client="${this.context.client}" .labels="${this.#labels.value ?? none}" .isPlaced="${this.#isPlaced}"
        @projectchange="${(event: Event) => this.#project.set((event as Said<'projectchange'>).project)}"
        @projectdeleted="${(event: Event) => this.#deleted(event as Said<'projectdeleted'>)}"></svc-project-settings>`
  }

  #deleted({ name }: Said<'projectdeleted'>): void {
    this.notify(t('{name} was deleted', { name }))
    this.context.go('projects', { isReplacing: true })
  }
}

const none: Labels = { categories: [], tags: [] }

/** Returns the release to go back to: the last good one if the project is broken, else the one before the live one. */
function releaseBefore({ broken, live, liveSource, releases, deployments }: ProjectOverview): { id: string } | null {
  const lastGood = broken === null ? null : wayBackOf(broken)
  const now = (liveSource ?? live)?.id ?? releases[0]?.deployId
  const at = deployments.findIndex(({ id }) => id === now)
  const isGood = ({ status, backgroundFailed, hasArtifact, exact }: ListedDeployment): boolean =>
    status === 'success' && backgroundFailed !== true && hasArtifact && !exact
  return lastGood ?? deployments.slice(at + 1).find(isGood) ?? null
}

export const elements = {
  'svc-page-project': ProjectPage,
  'svc-copy': SvcCopy,
  'svc-dialog': SvcDialog,
  'svc-label': SvcLabel,
  'svc-marked': SvcMarked,
  'svc-background-failure': SvcBackgroundFailure,
  'svc-status': SvcStatus,
  'svc-span': SvcSpan,
  'svc-time': SvcTime
}
