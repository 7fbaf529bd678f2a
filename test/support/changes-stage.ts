import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import type { KeptBase } from '../../lib/model/access.js'
import type { DeployRequest } from '../../lib/deploy/requests.js'
import type { Deployer } from '../../lib/deploy/deployer.js'
import type { DeployNeeds } from '../../lib/deploy/needs.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import { admin, deployStage, never } from './deploy-stage.js'
import { changesOf } from './sent-changes.js'

/** Sends what has changed since a base, and waits for the deployment. */
export async function sendChanges(
  deployer: Deployer,
  project: Pick<Project, 'id'>,
  files: Record<string, string>,
  base = deployer.baseOf(project.id, null),
  more: Partial<DeployRequest> = {}
): Promise<DeploymentRow> {
  const receive = (bytes: Buffer) => deployer.receive(Readable.from([bytes]), { limitBytes: 1e9, signal: never })
  const deployId = base?.deployId ?? ''
  const entries = Object.entries(files).map(([name, data]) => ({
    name,
    data,
    mode: 0o100644,
    mtimeMs: 1_700_000_000_000
  }))
  const { treeSha256, delta, contents } = changesOf(entries, await deployer.baseTree(project.id, deployId))
  const received = await deployer.assemble({
    projectId: project.id,
    base: deployId,
    treeSha256,
    delta: await receive(delta),
    contents: await receive(contents),
    limitBytes: 1e9
  })
  const run = await deployer.deploy(received, { projectId: project.id, env: {}, actor: admin, ...more })
  return run.finished
}

/** A project, and pushes of what has changed since its kept releases. */
export async function stageChanges(t: Test, more: Partial<DeployNeeds> = {}) {
  const stage = await deployStage(t, undefined, {}, more)
  const shop = await stage.addProject({ name: 'shop', deployPath: join(stage.directory, 'shop') })
  const send = (project: Project, files: Record<string, string>, base?: KeptBase | null) =>
    sendChanges(stage.deployer, project, files, base === undefined ? undefined : base)
  const read = (name: string): string => readFileSync(join(shop.deployPath, name), 'utf8')
  return { stage, shop, send, read }
}
