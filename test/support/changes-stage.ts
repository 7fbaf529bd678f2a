import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import { sha256 } from '../../lib/base/digests.js'
import { compareWithBase, writeDelta } from '../../lib/base/shared/tree-delta.js'
import { readTree } from '../../lib/core/archive/tree-wire.js'
import { createTreeDigest } from '../../lib/model/manifest.js'
import type { KeptBase } from '../../lib/model/access.js'
import type { DeployRequest } from '../../lib/deploy/admission.js'
import type { Deployer } from '../../lib/deploy/deployer.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import { admin, deployStage, never } from './deploy-stage.js'
import { zipOf } from './zips.js'

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
  const known = readTree(await deployer.baseTree(project.id, deployId))
  const entries = Object.entries(files)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([path, text]) => ({
      path,
      mode: 0o100644,
      size: text.length,
      sha256: sha256(Buffer.from(text)).toString('hex'),
      mtimeMs: 1_700_000_000_000
    }))
  const digest = createTreeDigest()
  for (const entry of entries) digest.add(entry)
  const treeSha256 = digest.end()
  const delta = compareWithBase(new Map(Array.from(known.entries(), entry => [entry.path, entry])), {
    entries
  })
  const sent = Object.fromEntries(delta.missing.map(({ path }) => [path, files[path] as string]))
  const received = await deployer.assemble({
    projectId: project.id,
    base: deployId,
    treeSha256,
    delta: await receive(Buffer.from(writeDelta(delta, treeSha256))),
    contents: await receive(await zipOf(sent)),
    limitBytes: 1e9
  })
  const run = await deployer.deploy(received, { projectId: project.id, env: {}, actor: admin, ...more })
  return run.finished
}

/** A project, and pushes of what has changed since its kept releases. */
export async function stageChanges(t: Test) {
  const stage = await deployStage(t)
  const shop = await stage.addProject({ name: 'shop', deployPath: join(stage.directory, 'shop') })
  const send = (project: Project, files: Record<string, string>, base?: KeptBase | null) =>
    sendChanges(stage.deployer, project, files, base === undefined ? undefined : base)
  const read = (name: string): string => readFileSync(join(shop.deployPath, name), 'utf8')
  return { stage, shop, send, read }
}
