import { mkdtemp, mkdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import { systemClock } from '../../lib/base/clock.js'
import { randomIds } from '../../lib/base/digests.js'
import type { Run } from '../../lib/deploy/admission.js'
import type { DeployRequest } from '../../lib/deploy/requests.js'
import { createDeployer, type Deployer } from '../../lib/deploy/deployer.js'
import type { DeployHome } from '../../lib/deploy/files.js'
import type { DeployNeeds, Notice } from '../../lib/deploy/needs.js'
import type { Actor, AuditEvent } from '../../lib/model/audit.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import type { OpenedVariable } from '../../lib/model/variable.js'
import type { Store } from '../../lib/core/store/database.js'
import { layDatabase } from './new-database.js'
import { headersIn } from './store.js'
import { createOffers } from '../../lib/model/fleet-wire.js'
import { createVariablesKey } from '../../lib/projects/seal.js'
import { createSealing } from '../../lib/server/front.js'
import type { CheckHeaders } from '../../lib/projects/seal.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import { findDeployment } from '../../lib/core/store/tables/deployments.js'
import { insertProject, updateProject } from '../../lib/core/store/tables/projects.js'
import { zipOf } from './zips.js'
import { aProject } from '../core/store/stage.js'

export interface DeployStage extends DeployNeeds {
  headers: CheckHeaders
  directory: string
  store: Store
  deployer: Deployer
  notices: Notice[]
  audits: AuditEvent[]
  faults: unknown[]
  /** The changes that were reported to the quota. */
  kept: Array<[projectId: string, bytes: number]>
  /** The project's own variables; a test changes the list. */
  ownVariables: OpenedVariable[]
  values: {
    keep_archives: number
    keep_undo: number
    script_timeout: number
    max_extracted_size: number
    max_output_size: number
    max_before_size: number
    allow_client_scripts: boolean
    durable_targets: boolean
    share_archives: boolean
    gate_hosts: string[]
  }
  addProject(patch?: Partial<Project>): Promise<Project>
  change(project: Project, patch: Partial<Project>): Promise<void>
  push(project: Project, files: Record<string, string>, request?: Partial<DeployRequest>): Promise<Run>
  /** Pushes and waits for the end of the deployment. */
  deploy(project: Project, files: Record<string, string>, request?: Partial<DeployRequest>): Promise<DeploymentRow>
  row(deployId: string): DeploymentRow
  output(deployId: string): Promise<string>
  /** Starts another server on the same data directory. This one is left as if it had been killed. */
  restart(): Promise<DeployStage>
}

export const admin: Actor = { name: 'admin', ip: '192.0.2.1' }
export const never: AbortSignal = new AbortController().signal

/** Creates a deployer on a real store and a real data directory below `directory`, removed after the test. */
export async function deployStage(
  t: Test,
  directory?: string,
  places: Partial<DeployHome> = {},
  more: Partial<DeployNeeds> = {}
): Promise<DeployStage> {
  const top = directory ?? (await mkdtemp(join(tmpdir(), 'svc-deploy-')))
  const home = {
    directory: join(top, 'home'),
    deployments: join(top, 'home/deployments'),
    tmp: join(top, 'home/tmp'),
    ...places
  }
  await layDatabase(home.directory)
  await mkdir(home.directory, { recursive: true })
  const store = await openStore({ directory: home.directory })
  const notices: Notice[] = []
  const audits: AuditEvent[] = []
  const faults: unknown[] = []
  const kept: DeployStage['kept'] = []
  const variables: OpenedVariable[] = []
  const headers = headersIn(store, home.directory)
  const values = {
    keep_archives: 10,
    keep_undo: 9,
    script_timeout: 30,
    max_extracted_size: 64,
    max_output_size: 1024,
    max_before_size: 64,
    allow_client_scripts: true,
    durable_targets: true,
    share_archives: true,
    gate_hosts: [] as string[]
  }
  const needs: DeployNeeds = {
    store,
    home,
    clock: systemClock,
    ids: randomIds,
    settings: { number: key => values[key], flag: key => values[key] },
    environment: {
      PATH: process.env['PATH'],
      ADMIN_TOKEN: 'hunter2-of-the-server',
      SVC_HOME: home.directory,
      INHERITED: 'yes'
    },
    quota: { changed: (projectId, bytes) => void kept.push([projectId, bytes]), recountLater: () => {} },
    variables: { open: async () => variables },
    headers,
    offers: createOffers(createSealing(store, createVariablesKey(join(home.directory, 'variables.key')), 'rollout')),
    checks: {
      hosts: () => values.gate_hosts,
      pm2: async () => ({ bound: false, message: 'The project is not linked to a PM2 application' }),
      log: async () => ({ lines: [], endOffset: 0, hasMore: false }),
      firstMatch: async () => -1
    },
    audit: event => void audits.push(event),
    notify: notice => void notices.push(notice),
    endRetriesMs: [1, 1],
    log: (message, error) => void faults.push([message, error]),
    ...more
  }
  const deployer = createDeployer(needs)
  await deployer.recover()

  const stage: DeployStage = {
    ...needs,
    headers,
    directory: top,
    deployer,
    notices,
    audits,
    faults,
    kept,
    ownVariables: variables,
    values,
    async addProject(patch = {}) {
      const project = aProject({ id: randomIds.id('proj_'), name: 'Shop', token: randomIds.token(), ...patch })
      project.deployPath = patch.deployPath ?? join(top, 'targets', project.id)
      await store.write(tx => insertProject(tx, project))
      return project
    },
    change: async (project, patch) => void (await store.write(tx => updateProject(tx, project.id, patch))),
    async push(project, files, request = {}) {
      const bytes = Readable.from([await zipOf(files)])
      const received = await deployer.receive(bytes, {
        limitBytes: 64 * 1024 * 1024,
        signal: new AbortController().signal
      })
      return deployer.deploy(received, { projectId: project.id, env: {}, actor: admin, ...request })
    },
    async deploy(project, files, request) {
      const row = await (await stage.push(project, files, request)).finished
      // The tree is written in the background. A test may damage the files that it is made of.
      await deployer.ownedTree(project.id).catch(() => {})
      return row
    },
    row: deployId => findDeployment(store, deployId) as DeploymentRow,
    output: async deployId => (await deployer.readOutput(deployId)).text,
    async restart() {
      await store.close()
      return deployStage(t, top, places, more)
    }
  }
  t.teardown(async () => {
    await deployer.stop({ wait: false })
    await store.close().catch(() => {})
    await rm(top, { recursive: true, force: true })
  })
  return stage
}
