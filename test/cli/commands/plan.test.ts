import t from 'tap'
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import type { PlanAnswer } from '../../../lib/model/plan.js'
import type { Project } from '../../../lib/model/project.js'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { snapshot } from '../../support/tree.js'
import { urlOf } from '../../support/on-loopback.js'

const cwd = t.testdir({ tmp: {} })
const started = startServe(t, cwd)
let number = 0

const twoFiles = { 'index.html': '<h1>one</h1>', 'assets/app.js': 'app()' }

async function stage(files: Record<string, string> = twoFiles, fields: Partial<Project> = {}) {
  const server = await started
  const name = `site${++number}`
  const target = join(cwd, `www${number}`)
  const project = await server.createProject({ name, deployPath: target, ...fields })
  const site = join(cwd, name)
  for (const [path, contents] of Object.entries(files)) {
    mkdirSync(join(site, path, '..'), { recursive: true })
    writeFileSync(join(site, path), contents)
  }
  const config = { projectId: project.id, serverUrl: server.url, ignore: ['*.json'] }
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify(config))
  const env = { SVC_DEPLOY_TOKEN: project.token }
  const run = (...words: string[]) => svc(words, { cwd: site, env })
  return { server, project, site, target, env, run }
}

t.test('shows what a push would do, and changes nothing', async t => {
  const { run, site, target, env } = await stage()
  const first = await svc(['plan'], { cwd: site, env: { ...env, TMPDIR: join(cwd, 'tmp') } })
  t.equal(first.code, 0, first.stderr)
  t.match(first.stdout, /^Plan for site\d+ \(production\), the first deployment\n {2}\+ 2 added {3}~ 0 changed/)
  t.match(first.stdout, /^ {2}\+ assets\/app\.js\n {2}\+ index\.html\n/m)
  t.match(first.stdout, /\nNothing was changed\.\n$/)
  t.match(first.stderr, /^Reading \.\/…\nRead 2 files, 17 B, in .*s\n$/)
  t.notOk(existsSync(target))
  t.strictSame(readdirSync(join(cwd, 'tmp')), [], 'no archive is written')

  t.equal((await run('push', '-m', 'New prices')).code, 0)
  const before = snapshot(target)
  writeFileSync(join(site, 'index.html'), '<h1>two</h1>')
  const { code, stdout } = await run('plan', '--pre', 'echo hi')
  t.equal(code, 0)
  t.match(stdout, /^Plan for site\d+ \(production\), against dep_\w{16}, .*, "New prices"\n/)
  t.match(stdout, / {2}\+ 0 added {3}~ 1 changed {3}= 1 as they are\n {2}~ index\.html\n/)
  t.match(stdout, / {2}scripts {3}pre-deploy: yours\n {2}space {5}.* needed, .* free\n/)
  for (const line of stdout.split('\n')) t.ok(line.length <= 80, line)
  const waves = await run('push', '--dry-run', '--canary', '2')
  t.match(waves, { code: 1, stderr: /--canary: the project is not placed on nodes/ }, 'as the push would say')
  const dry = await run('push', '--dry-run', '--pre', 'echo hi')
  t.equal(dry.code, 0)
  t.equal(dry.stdout.replace(/, [^,]*, "/, ''), stdout.replace(/, [^,]*, "/, ''), 'push --dry-run says the same')
  t.strictSame(snapshot(target), before)
})

t.test('--exit-code tells what a push would do', async t => {
  const { run } = await stage(twoFiles, { allowClientScripts: false })
  t.equal((await run('plan', '--exit-code')).code, 3)
  await run('push')
  t.equal((await run('plan', '--exit-code')).code, 0)
  const refused = await run('plan', '--exit-code', '--post', 'echo hi')
  t.equal(refused.code, 1)
  t.match(refused.stdout, /^ {2}✗ The project does not accept scripts from clients\./m)
  t.equal((await run('plan', '--post', 'echo hi')).code, 1, 'also without the option')
  const { run: other, target: otherTarget } = await stage({ sub: 'a file', b: 'x' })
  mkdirSync(join(otherTarget, 'sub', 'of-others'), { recursive: true })
  writeFileSync(join(otherTarget, 'sub', 'of-others', 'a'), '')
  const blocked = await other('plan')
  t.equal(blocked.code, 1)
  t.match(blocked.stdout, /^ {2}✗ "sub" is a file in the archive, but a directory in the target with/m)
})

t.test('--all and --json list every path', async t => {
  const files = Object.fromEntries(Array.from({ length: 250 }, (_, i) => [`f${i}`, 'x']))
  const { run } = await stage(files)
  const short = (await run('plan')).stdout
  t.equal(short.match(/^ {2}\+ f\d+$/gm)?.length, 10)
  t.match(short, /^ {2}… and 240 more: svc plan --all$/m)
  t.equal((await run('plan', '--all')).stdout.match(/^ {2}\+ f\d+$/gm)?.length, 250)
  const plan = JSON.parse((await run('plan', '--all', '--json')).stdout) as PlanAnswer
  t.match(plan, { success: true, planId: /^plan_/, counts: { added: 250 }, paths: { truncated: false } })
  t.strictSame(plan.paths.added.slice().sort(), Object.keys(files).sort())
  t.equal((JSON.parse((await run('plan', '--json')).stdout) as PlanAnswer).paths.added.length, 200)
})

t.test('a push is held to a saved plan', async t => {
  const { run, site, target } = await stage()
  await run('push')
  writeFileSync(join(site, 'index.html'), 'two')
  t.equal((await run('plan', '--save', 'plan.json')).code, 0)
  t.match(JSON.parse(readFileSync(join(site, 'plan.json'), 'utf8')), { planId: /^plan_/, counts: { changed: 1 } })
  writeFileSync(join(site, 'index.html'), 'three')
  const changed = await run('push', '--plan', 'plan.json')
  t.equal(changed.code, 1)
  t.match(changed.stderr, /error: Nothing was deployed: the files differ from those of the plan/)
  t.match((await run('push', '--plan', 'plan.json', '--json')).stdout, /the files differ from those of the plan/)
  writeFileSync(join(site, 'index.html'), 'two')
  const before = readFileSync(join(target, 'index.html'), 'utf8')
  writeFileSync(join(target, 'index.html'), 'edited')
  const outdated = await run('push', '--plan', 'plan.json')
  t.equal(outdated.code, 1)
  t.match(outdated.stdout + outdated.stderr, /"index\.html" was changed at .*, after the plan of /)
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'edited')
  writeFileSync(join(target, 'index.html'), before)
  t.equal((await run('push', '--plan', 'plan.json')).code, 0)
  t.equal(readFileSync(join(target, 'index.html'), 'utf8'), 'two')

  const other = await stage()
  writeFileSync(join(other.site, 'plan.json'), readFileSync(join(site, 'plan.json')))
  t.match((await other.run('push', '--plan', 'plan.json')).stderr, /the plan is for project/)
  for (const wrong of ['nowhere.json', 'svc.config.json']) {
    t.equal((await other.run('push', '--plan', wrong)).code, 2, wrong)
  }
})

t.test('an older server gets nothing, and the command says why', async t => {
  const { site, run } = await stage()
  const asked: string[] = []
  const old = createServer(socket => {
    socket.once('data', bytes => {
      asked.push(String(bytes).split(' HTTP')[0] as string)
      const body = JSON.stringify({ success: false, error: 'Not found', message: 'Not found', code: 'not_found' })
      const head = `HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`
      socket.end(`${head}\r\nConnection: close\r\n\r\n${body}`)
    })
    socket.on('error', () => {})
  })
  const serverUrl = await urlOf(t, old)
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ projectId: 'proj_x', serverUrl, ignore: ['*.json'] }))
  for (const words of [['plan'], ['push', '--dry-run']]) {
    const { code, stderr } = await run(...words)
    t.equal(code, 1)
    t.match(stderr, /error: This server is too old for plans and --dry-run\. Nothing was uploaded/)
  }
  t.ok(
    asked.every(line => line.startsWith('POST /api/deploy/plan?')),
    asked.join()
  )
})
