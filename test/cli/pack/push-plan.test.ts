import t from 'tap'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Project } from '../../../lib/model/project.js'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

const cwd = t.testdir()
const started = startServeProcess(t, cwd)
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
