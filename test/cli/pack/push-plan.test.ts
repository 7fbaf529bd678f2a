import t, { type Test } from 'tap'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { readTree } from '../../../lib/core/archive/tree-wire.js'
import { type SourceTree, treeOf } from '../../../lib/core/archive/tree.js'
import { type Call, type Client, createClient } from '../../../lib/cli/client/client.js'
import { loadPlan, planProject, readTreeOfProject, requestPlan, savePlan } from '../../../lib/cli/pack/push-plan.js'
import { findFiles, readFound } from '../../../lib/cli/pack/pack.js'
import { emptyIndex } from '../../../lib/cli/pack/push-index.js'
import type { Project } from '../../../lib/model/project.js'
import { aPlan } from '../../support/a-plan.js'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { urlOf } from '../../support/on-loopback.js'
import { packingStage } from '../../support/packing.js'

const cwd = t.testdir()
const started = startServe(t, cwd)
let number = 0

async function stage(files: Record<string, string>, fields: Partial<Project> = {}) {
  const server = await started
  const name = `site${++number}`
  const target = join(cwd, `www${number}`)
  const project = await server.createProject({ name, deployPath: target, ...fields })
  const site = join(cwd, name)
  mkdirSync(site)
  for (const [path, contents] of Object.entries(files)) writeFileSync(join(site, path), contents)
  const config = { projectId: project.id, serverUrl: server.url, ignore: ['*.json'] }
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify(config))
  const run = (...words: string[]) => svc(words, { cwd: site, env: { SVC_DEPLOY_TOKEN: project.token } })
  return { site, target, run }
}

const allowed = { policy: { pruneByDeployToken: true, forceByDeployToken: true, drift: 'refuse' } } as const

t.test('--prune removes what is gone, and the plan says so', async t => {
  const { site, target, run } = await stage({ a: '1', b: '1', c: '1' }, allowed)
  t.equal((await run('push')).code, 0)
  writeFileSync(join(target, 'mine'), 'mine')
  rmSync(join(site, 'b'))
  const plan = await run('plan', '--prune', '--exit-code')
  t.equal(plan.code, 3)
  t.match(plan.stdout, /= 2 as they are {3}- 1 removed\n {2}- b\n/)
  t.match((await run('plan')).stdout, /= 2 as they are {3}\. 1 kept\n/)
  t.ok(existsSync(join(target, 'b')))
  const pushed = await run('push', '--prune')
  t.equal(pushed.code, 0, pushed.stderr)
  t.match(pushed.stdout, /0 new or changed, 1 removed/)
  t.notOk(existsSync(join(target, 'b')))
  t.ok(existsSync(join(target, 'mine')))
})

t.test('a plan that removes is saved, and a push is held to it', async t => {
  const { site, target, run } = await stage({ a: '1', b: '1', c: '1' }, allowed)
  t.equal((await run('push')).code, 0)
  rmSync(join(site, 'b'))
  t.equal((await run('plan', '--prune', '--save', 'plan.json')).code, 0)
  t.equal((await run('push', '--plan', 'plan.json', '--prune')).code, 2)
  writeFileSync(join(target, 'b'), 'edited')
  const outdated = await run('push', '--plan', 'plan.json')
  t.equal(outdated.code, 1)
  t.match(outdated.stdout, /"b" was changed at .*, after the plan of .*\. Plan again/)
  t.equal(readFileSync(join(target, 'b'), 'utf8'), 'edited')
})

t.test('--force replaces edited files, and keeps them', async t => {
  const { site, target, run } = await stage({ a: '1' }, allowed)
  t.equal((await run('push')).code, 0)
  writeFileSync(join(target, 'a'), 'edited')
  writeFileSync(join(site, 'a'), '2')
  t.match(await run('push'), { code: 1, stdout: /"a" was edited on the server/ })
  const forced = await run('push', '--force')
  t.equal(forced.code, 0, forced.stderr)
  t.match(forced.stdout, /replaced "a", which was edited on the server/)
  t.equal(readFileSync(join(target, 'a'), 'utf8'), '2')
})

t.test('refuses before anything is uploaded', async t => {
  const many = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`f${i}`, '1']))
  const { site, run } = await stage(many, allowed)
  t.equal((await run('push')).code, 0)
  for (const name of Object.keys(many).slice(1)) rmSync(join(site, name))
  const refused = await run('push', '--prune')
  t.equal(refused.code, 1)
  t.match(refused.stderr, /✗ Nothing was changed: 59 of the 60 files/)
  t.match(refused.stderr, /the plan says that the push would fail/)
  t.notMatch(refused.stderr, /Uploading/)
  t.match(await run('push', '--prune=force'), { code: 0, stdout: /59 removed/ })

  const strict = await stage({ a: '1' })
  for (const wish of ['--prune', '--force']) {
    t.match(await strict.run('push', wish), { code: 1, stderr: /The deploy token of the project may not / })
  }
})

t.test('writes a plan and reads it again', async t => {
  const path = join(t.testdir(), 'plan.json')
  const plan = aPlan()
  await savePlan(path, plan)
  t.strictSame(await loadPlan(path), { planId: plan.planId, projectId: plan.project.id, treeSha256: plan.treeSha256 })
})

t.test('refuses what is no plan', async t => {
  const directory = t.testdir()
  const path = join(directory, 'plan.json')
  await t.rejects(savePlan(path, aPlan({ planId: null })), { code: 'plan_incomplete' })
  await t.rejects(savePlan(directory, aPlan()), { message: 'Cannot write' })
  await t.rejects(loadPlan(path), { message: 'Cannot read' })
  for (const text of ['', '[]', 'null', '{"planId":1}', '{"planId":"plan_1"}']) {
    writeFileSync(path, text)
    await t.rejects(loadPlan(path), { message: 'is not a plan' }, text)
  }
})

function stagePlanning(t: Test, preDeploy: { value: string } | null = null) {
  const files = { 'index.html': 'page', 'notes.md': 'notes', '.env': 'secret' }
  return packingStage(t, files, { cliIgnore: { value: ['*.md'] }, preDeploy, postDeploy: null })
}

const { signal } = new AbortController()
const pathsOf = ({ entries }: SourceTree): string[] => entries.map(({ path }) => path)

t.test('reads the files that a push would pack', async t => {
  const { context, config, said } = stagePlanning(t)
  const tree = await readTreeOfProject({ config, index: emptyIndex, signal }, context)
  t.strictSame(pathsOf(tree), ['index.html'])
  t.match(said, ['Reading dist', /^end: Read 1 file, 4 B, in /])
})

t.test('clears the progress if it fails', async t => {
  const { context, config, cwd, said } = stagePlanning(t)
  const found = await findFiles(context, config, signal)
  rmSync(join(cwd, 'dist/index.html'))
  await t.rejects(readFound(context, found, { index: emptyIndex, what: 'dist', signal }), { code: 'file_vanished' })
  t.equal(said.at(-1), 'clear')
})

t.test('asks the server with the scripts of the configuration', async t => {
  const { context, config } = stagePlanning(t, { value: 'echo hi' })
  const calls: Call[] = []
  const client = {
    json: async (call: Call) => {
      calls.push(call)
      return aPlan()
    }
  }
  t.match(
    await planProject(
      {
        client: client as unknown as Client,
        projectId: 'proj_1',
        config,
        index: emptyIndex,
        wishes: { prune: undefined, force: false },
        all: false,
        signal
      },
      context
    ),
    { planId: 'plan_1' }
  )
  t.match(calls, [{ query: { projectId: 'proj_1' }, headers: { 'x-svc-scripts': /^pre=[0-9a-f]{64}$/ } }])
})

interface Asked {
  request: IncomingMessage
  body: Buffer
}

const noWishes = { prune: undefined, force: false }
const memory = (path: string, text: string) =>
  ({ path, kind: 'file', source: Buffer.from(text), bytes: text.length, mode: 0o644, mtimeMs: 1000 }) as const

t.test('sends the tree compressed, with the digests of the scripts, and reads the answer', async t => {
  const asked: Asked[] = []
  let answer: { status: number; type: string; text: string }
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    asked.push({ request, body: Buffer.concat(chunks) })
    response.writeHead(answer.status, { 'content-type': answer.type }).end(answer.text)
  })
  const serverUrl = await urlOf(t, server)
  const client = createClient({ serverUrl, token: null, env: {} })
  const tree = await treeOf([memory('b', 'x'), memory('a', 'y')])
  const scripts = { preDeploy: 'echo secret', postDeploy: ' ' }
  const query = {
    projectId: 'proj_1',
    tree,
    wishes: noWishes,
    all: false,
    scripts,
    signal: new AbortController().signal
  }

  const plan = aPlan()
  answer = { status: 200, type: 'application/json', text: JSON.stringify(plan) }
  t.strictSame(await requestPlan(client, query), plan)
  const [{ request, body }] = asked as [Asked]
  t.equal(request.url, '/api/deploy/plan?projectId=proj_1')
  t.match(request.headers, { 'content-type': 'text/vnd.svc-tree', 'content-encoding': 'gzip', 'x-svc-time': /^\d+$/ })
  t.equal(request.headers['x-svc-scripts'], `pre=${createHash('sha256').update('echo secret').digest('hex')}`)
  t.notOk(JSON.stringify(request.headers).includes('secret'))
  const { digits, treeSha256, entries } = readTree(gunzipSync(body))
  t.strictSame({ digits, treeSha256 }, { digits: 16, treeSha256: tree.treeSha256 })
  t.strictSame(
    [...entries()],
    tree.entries.map(each => ({ ...each, sha256: each.sha256.slice(0, 16) }))
  )

  await requestPlan(client, { ...query, wishes: { prune: 'force', force: true } })
  t.equal(asked.at(-1)?.request.url, '/api/deploy/plan?projectId=proj_1&prune=force&force=1')

  const { paths: _, ...head } = plan
  const conflict = { path: 'c', code: 'file_in_the_way', message: 'in the way' }
  const lines = [
    { event: 'plan', ...head },
    { kind: 'added', path: 'a' },
    { kind: 'conflicts', ...conflict }
  ]
  const text = [...lines, { event: 'end' }].map(line => `${JSON.stringify(line)}\n`)
  answer = { status: 200, type: 'application/x-ndjson', text: text.join('') }
  const all = await requestPlan(client, { ...query, all: true })
  t.match(all, { planId: 'plan_1', paths: { added: ['a'], conflicts: [conflict], changed: [], truncated: false } })
  answer = { ...answer, text: text.slice(0, -1).join('') }
  await t.rejects(requestPlan(client, { ...query, all: true }), { code: 'stream_broken' })

  const refused = (code: string): void => {
    answer = { status: 404, type: 'application/json', text: JSON.stringify({ error: 'Not found', code }) }
  }
  refused('not_found')
  await t.rejects(requestPlan(client, query), { code: 'server_too_old' })
  refused('no_such_project')
  await t.rejects(requestPlan(client, query), { code: 'no_such_project' })
})
