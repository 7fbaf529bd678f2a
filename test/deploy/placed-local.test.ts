/*
 * A project that moves between the server itself and a node, with pushes of changes before and after each move. Plans,
 * ways back and verifications are right, or refused with a sentence.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startNodes } from '../support/real-nodes.js'
import { startServer } from '../support/server.js'
import { svc } from '../support/svc.js'

/** Files that all releases have; each also has one of its own, and one with other contents. */
const common = ['a', 'b', 'c', 'd', 'e']

/** Returns which release a directory contains exactly; null: it is empty. */
function releaseIn(directory: string): number | string | null {
  const names = existsSync(directory) ? readdirSync(directory).sort() : []
  if (names.length === 0) return null
  const number = Number(/^own-(\d)$/.exec(names.at(-2) ?? '')?.[1])
  const isIt = names.join() === [...common, `own-${number}`, 'version'].join()
  return isIt && names.every(name => readFileSync(join(directory, name), 'utf8') === textOf(name, number))
    ? number
    : names.join()
}

const textOf = (name: string, release: number): string =>
  (common.includes(name) ? name : `${release} `).padEnd(20_000, `${name} `)

t.test('a project that is placed on a node, and taken off it again', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const [node] = await startNodes(t, stage, [{ name: 'a' }])
  const { id, token, deployPath } = await stage.createProject('shop', { policy: { prune: 'managed' } })
  const remote = join(node?.sites as string, 'shop')
  const cwd = join(stage.sites, '..', 'machine')
  const site = join(cwd, 'site')
  mkdirSync(site, { recursive: true })
  writeFileSync(
    join(cwd, 'svc.config.json'),
    JSON.stringify({ serverUrl: stage.url, projectId: id, outputDir: 'site' })
  )
  const env = { SVC_HOME: join(cwd, 'client'), SVC_DEPLOY_TOKEN: token, CI: '' }
  const ids = new Map<number, string>()
  let isPlaced = false

  function lay(release: number): void {
    rmSync(site, { recursive: true })
    mkdirSync(site)
    for (const name of [...common, `own-${release}`, 'version']) writeFileSync(join(site, name), textOf(name, release))
  }
  async function contain(what: string, here: number | null, there: number | null): Promise<void> {
    t.strictSame([releaseIn(deployPath), releaseIn(remote)], [here, there], what)
    const verified = await client.get(`/api/projects/${id}/verify`)
    if (isPlaced) return void t.match(verified, { status: 409, body: { code: 'project_is_placed' } }, what)
    const all = common.length + 2
    const end = { event: 'end', files: all, ok: all, changed: 0, missing: 0, otherType: 0, isOutdated: false }
    t.match(JSON.parse((verified.text as string).trim().split('\n').at(-1) as string), end, `${what} is verified`)
  }
  async function push(release: number, here: number | null, there: number | null): Promise<void> {
    lay(release)
    const planned = await svc(['plan', '--out', 'site', '--json'], { cwd, env })
    if (isPlaced) t.match(planned, { code: 1, stderr: /on the nodes of the fleet/ })
    else {
      const counts = { added: 1, changed: 1, pruned: 1, drifted: 0, foreign: 0, unowned: 0, conflicts: 0 }
      t.match(JSON.parse(planned.stdout), ids.size === 0 ? {} : { counts })
    }
    const mode = ids.size === 0 ? 'auto' : 'require'
    const { code, stdout, stderr } = await svc(['push', '--incremental', mode], { cwd, env })
    t.equal(code, 0, stdout + stderr)
    const [row] = (await client.get(`/api/logs?projectId=${id}&limit=1`)).body
    t.match(row, { status: 'success', reusedFrom: ids.size === 0 ? null : /^dep_/ })
    ids.set(release, row.id)
    await contain(`push ${release}`, here, there)
  }
  async function back(
    to: number | 'undo',
    mode: 'overlay' | 'exact',
    ends: { here: number; there: number; code?: string }
  ): Promise<void> {
    const path = to === 'undo' ? `/api/projects/${id}/undo` : `/api/deployments/${ids.get(to)}/rollback`
    const answer = await client.post(path, to === 'undo' ? {} : { mode })
    const what = `${mode} to ${to}, ${isPlaced ? 'placed' : 'local'}`
    if (ends.code === undefined) t.match(answer, { status: 200, body: { success: true } }, what)
    else t.match(answer, { status: 409, body: { code: ends.code, error: /\w/ } }, what)
    await contain(what, ends.here, ends.there)
  }
  async function move(to: 'node' | 'server'): Promise<void> {
    const change = to === 'node' ? { add: [{ node: node?.id, deployPath: remote }] } : { remove: [node?.id] }
    t.match(await client.patch(`/api/projects/${id}/placements`, change), { status: 200 })
    isPlaced = to === 'node'
  }

  await push(1, 1, null)
  await push(2, 2, null)
  await move('node')
  await push(3, 2, 3)
  await back('undo', 'exact', { here: 2, there: 3, code: 'project_is_placed' })
  await back(1, 'exact', { here: 2, there: 3, code: 'project_is_placed' })
  await back(1, 'overlay', { here: 2, there: 1 })
  await push(4, 2, 4)
  await move('server')
  await push(5, 5, 4)
  await back('undo', 'exact', { here: 2, there: 4 })
  await back(4, 'exact', { here: 2, there: 4, code: 'not_exact' })
  await back(4, 'overlay', { here: 4, there: 4 })
  await back(3, 'exact', { here: 4, there: 4, code: 'not_exact' })
  await back(1, 'exact', { here: 1, there: 4 })
  await back(5, 'exact', { here: 5, there: 4 })
  await back('undo', 'exact', { here: 1, there: 4 })
  await back(2, 'overlay', { here: 2, there: 4 })
  await move('node')
  await push(6, 2, 6)
  await back(5, 'overlay', { here: 2, there: 5 })
  await move('server')
  await push(7, 7, 5)
  await push(8, 8, 5)
  await back(7, 'exact', { here: 7, there: 5 })
})
