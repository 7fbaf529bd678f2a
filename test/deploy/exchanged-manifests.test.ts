/* The manifest of a deployment is that of another one, as after a bad copy. Each way ends right, or with a sentence. */
import { copyFileSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createServerKey } from '../../lib/core/audit/signed-note.js'
import { stageChanges } from '../support/changes-stage.js'
import { admin } from '../support/deploy-stage.js'

const releases = [1, 2, 3, 4, 5]

/** Files that all releases have, ones with other contents of the same size, and one of its own. */
function filesOf(release: number): Record<string, string> {
  const same = Object.fromEntries(Array.from({ length: 9 }, (_, at) => [`s${at}`, `same ${at}`]))
  return { ...same, v: `version ${release}`, w: `half ${Math.ceil(release / 2)}`, [`own${release}`]: `own ${release}` }
}

const linesOf = (files: Record<string, string>): string =>
  Object.entries(files)
    .map(([name, text]) => `${name}: ${text}`)
    .sort()
    .join('\n')

/** Returns which release a directory contains exactly; otherwise what it contains. */
function releaseIn(directory: string): number | string {
  const found = linesOf(
    Object.fromEntries(readdirSync(directory).map(name => [name, readFileSync(join(directory, name), 'utf8')]))
  )
  return releases.find(release => linesOf(filesOf(release)) === found) ?? found
}

const ways = ['whole', 'changes', 'undo', 'exact 3', 'exact 2', 'exact 1', 'overlay 2'] as const
/** Whose manifest is that of which other deployment, and the ways that use it: they must be refused. */
const exchanges = [
  { of: 4, by: 1, refused: ['undo', 'exact 3', 'exact 2', 'exact 1'] },
  { of: 4, by: 3, refused: ['undo', 'exact 3', 'exact 2', 'exact 1'] },
  { of: 2, by: 4, refused: ['exact 3', 'exact 2', 'exact 1'] },
  { of: 3, by: 4, refused: ['exact 3', 'exact 2', 'exact 1'] }
] as const
const goals = { whole: 5, changes: 5, undo: 3, 'exact 3': 3, 'exact 2': 2, 'exact 1': 1, 'overlay 2': 2 }

for (const { of, by, refused } of exchanges)
  t.test(`the manifest of deployment ${of} is that of ${by}`, async t => {
    const { stage, send } = await stageChanges(t)
    const { deployer, values, home } = stage
    values.keep_archives = 100
    values.durable_targets = false
    for (const way of ways) {
      const project = await stage.addProject({ policy: { prune: 'managed' } })
      const ids = ['', (await stage.deploy(project, filesOf(1))).id]
      for (const release of [2, 3, 4]) ids.push((await send(project, filesOf(release))).id)
      await deployer.ownedTree(project.id)
      copyFileSync(join(home.deployments, `${ids[by]}.manifest`), join(home.deployments, `${ids[of]}.manifest`))
      const run = async () => {
        if (way === 'whole') return await stage.deploy(project, filesOf(5))
        if (way === 'changes') return await send(project, filesOf(5))
        if (way === 'undo') return await (await deployer.undo(project.id, { actor: admin })).finished
        const [mode, to] = way.split(' ') as ['exact' | 'overlay', string]
        return await (await deployer.rollback(ids[Number(to)] as string, { mode, actor: admin })).finished
      }
      const { status, errorMessage } = await run()
      const isRefused = (refused as readonly string[]).includes(way)
      t.strictSame([status, releaseIn(project.deployPath)], isRefused ? ['failed', 4] : ['success', goals[way]], way)
      if (isRefused) t.match(errorMessage, /cannot be undone, because its list of files contradicts .* at "\w+"/, way)
      t.equal((await stage.deploy(project, filesOf(5))).status, 'success')
      t.equal(releaseIn(project.deployPath), 5, `${way}, and a push after it`)
    }
  })

t.test('a tree that is made again of an exchanged manifest is refused, until that is removed', async t => {
  const { stage, send } = await stageChanges(t)
  const { deployer, values, home } = stage
  values.durable_targets = false
  const other = await stage.addProject()
  const foreign = (await stage.deploy(other, { a: 'of another project' })).id
  for (const by of [0, 2, 'other'] as const) {
    const project = await stage.addProject({ policy: { prune: 'managed' } })
    const ids = [(await stage.deploy(project, filesOf(1))).id]
    for (const release of [2, 3, 4]) ids.push((await send(project, filesOf(release))).id)
    await deployer.ownedTree(project.id)
    const manifestOf = (id: string): string => join(home.deployments, `${id}.manifest`)
    copyFileSync(manifestOf(by === 'other' ? foreign : (ids[by] as string)), manifestOf(ids[3] as string))
    rmSync(join(home.directory, 'trees', `${project.id}.tree`))
    const refusal = { code: 'torn_manifest', message: /contradicts its record.*\.manifest": svc then owns fewer/ }
    const signal = new AbortController().signal
    const verify = async () => {
      for await (const _ of deployer.verify({ projectId: project.id, sums: false, signal }));
    }
    await t.rejects(verify(), refusal, `verify, ${by}`)
    const undo = async () => await (await deployer.undo(project.id, { actor: admin })).finished
    const undone = await undo().catch((error: Error) => ({ status: 'failed', errorMessage: error.message }))
    t.match(undone, { status: 'failed', errorMessage: /contradicts/ }, `undo, ${by}`)
    t.match(
      await stage.deploy(project, filesOf(5)),
      { status: 'failed', errorMessage: /contradicts/ },
      'a push that prunes'
    )
    t.equal(releaseIn(project.deployPath), 4, 'nothing was changed')
    rmSync(manifestOf(ids[3] as string))
    await verify()
    t.equal((await stage.deploy(project, filesOf(5))).status, 'success')
  }
})

t.test('manifests of ways back that are exchanged with each other are told by their receipts', async t => {
  const receipts = { key: createServerKey(t.testdir()), version: '1' }
  const { stage, send } = await stageChanges(t, { receipts })
  const { deployer, values, home } = stage
  values.durable_targets = false
  const manifestOf = (id: string): string => join(home.deployments, `${id}.manifest`)
  const copy = (from: string, to: string): void => copyFileSync(from, to)
  for (const [one, other] of [
    [0, 1],
    [1, 2]
  ] as const) {
    const project = await stage.addProject({ policy: { prune: 'managed' } })
    const first = (await stage.deploy(project, filesOf(1))).id
    for (const release of [2, 3]) await send(project, filesOf(release))
    const undo = async () => await (await deployer.undo(project.id, { actor: admin })).finished
    const back = async () => await (await deployer.rollback(first, { mode: 'exact', actor: admin })).finished
    const ways = [await undo(), await undo(), await undo()].map(({ id }) => id)
    for (const id of ways) await deployer.receipt(id)
    t.equal(releaseIn(project.deployPath), 2)
    const [a, b] = [manifestOf(ways[one] as string), manifestOf(ways[other] as string)]
    const spare = join(home.directory, 'spare')
    const exchange = (): void => (copy(a, spare), copy(b, a), copy(spare, b))
    exchange()
    t.match(await back(), { status: 'failed', errorMessage: /contradicts/ })
    rmSync(join(home.directory, 'trees', `${project.id}.tree`))
    t.match(await deployer.ownedTree(project.id).catch((error: Error) => error), { code: 'torn_manifest' })
    t.equal(releaseIn(project.deployPath), 2, 'nothing was changed')
    exchange()
    t.match(await back(), { status: 'success' })
    t.equal(releaseIn(project.deployPath), 1)
  }
})
