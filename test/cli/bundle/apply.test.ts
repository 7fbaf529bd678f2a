import t, { type Test as Tap } from 'tap'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Stage, startServer } from '../../support/server.js'
import { svc } from '../../support/svc.js'
import { writeTestBundle } from '../../support/bundles.js'

/** A server with a project, and a directory with a bundle that was made elsewhere. */
async function stageOf(t: Tap) {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop', { allowedEnv: ['WORD'] } as never)
  const cwd = join(stage.sites, '../inside')
  mkdirSync(cwd)
  const env = { SVC_SERVER_URL: stage.url, SVC_DEPLOY_TOKEN: shop.token as string }
  const run = (line: string, more: Record<string, string> = env) => svc(line.split(' '), { cwd, env: more })
  return { stage, shop, cwd, run, target: (path: string) => join(stage.sites, 'shop', path) }
}

async function deploymentsOf(stage: Stage): Promise<any[]> {
  return (await stage.client.get('/api/logs')).body as any[]
}

t.test('a bundle is planned, then deployed with its scripts, its message and its origin', async t => {
  const { stage, cwd, run, target } = await stageOf(t)
  const provenance = { source: 'cli', commit: 'a'.repeat(40), branch: 'main', subject: 'New prices' }
  writeTestBundle(join(cwd, 'shop.svcb'), {
    more: { 'scripts/post': 'echo "post $WORD"' },
    manifest: about => Object.assign(about, { provenance, env: ['WORD'] })
  })
  // A configuration of another release in this directory is not used.
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ projectId: 'proj_other', preDeploy: 'exit 1' }))

  const trial = await run('apply shop.svcb --dry-run')
  t.match(trial, { code: 0, stdout: /Plan for shop[^]*\+ 2 added/ })
  t.match(trial.stderr, /no values of variables\. Give them with --set-env, or to the project: WORD/)
  t.same(await deploymentsOf(stage), [])
  t.match(await run('apply shop.svcb'), { code: 1, stderr: /no terminal to ask on: use --yes/ })
  t.same(await deploymentsOf(stage), [])

  const { code, stdout, stderr } = await run('apply shop.svcb --yes --set-env WORD=hello')
  t.equal(code, 0, stderr)
  t.match(stdout, /\+ 2 added[^]*post hello[^]*✔ success: deployed to proj_/)
  t.equal(readFileSync(target('app.js'), 'utf8'), 'app()')
  const [row] = await deploymentsOf(stage)
  t.match(row, { status: 'success', message: 'New prices', provenance: { commit: 'a'.repeat(40), branch: 'main' } })

  writeFileSync(target('app.js'), 'edited')
  const again = await run('apply shop.svcb --yes --json')
  t.match(JSON.parse(again.stdout), { status: 'success', projectId: row.projectId })
})

t.test('on the machine of the server, its owner needs neither address nor token', async t => {
  const { stage, cwd, run, target } = await stageOf(t)
  writeTestBundle(join(cwd, 'shop.svcb'))
  const { code, stderr } = await run('apply shop.svcb --yes', { SVC_HOME: stage.home.directory })
  t.equal(code, 0, stderr)
  t.ok(existsSync(target('index.html')))
})

t.test('what cannot be applied is refused, and nothing is deployed', async t => {
  const { stage, cwd, run, target } = await stageOf(t)
  const rows: Array<[string, Parameters<typeof writeTestBundle>[1], RegExp]> = [
    ['--yes', { manifest: about => (about['minServer'] = '99.0.0') }, /needs svc 99\.0\.0 or later, and the server is/],
    ['--yes', { manifest: about => (about['needs'] = ['teleport']) }, /the server does not know: teleport/],
    ['--yes', { manifest: about => (about['format'] = 2) }, /Update svc on this machine/],
    ['--yes', { manifest: about => (about['tree'].bytes = 9e15) }, /its release has .*, and the server accepts/],
    ['--yes --project other', {}, /other/],
    ['--yes', { more: { 'scripts/pre': 'exit 3' } }, /exit 3|code 3/],
    ['--yes --secrets', {}, /--secrets is for the file of a server/]
  ]
  for (const [options, plan, says] of rows) {
    writeTestBundle(join(cwd, 'shop.svcb'), plan)
    const { code, stdout, stderr } = await run(`apply shop.svcb ${options}`)
    t.not(code, 0, String(says))
    t.match(stdout + stderr, says)
    t.notOk(existsSync(target('app.js')))
  }
  t.same(
    (await deploymentsOf(stage)).map(({ status }) => status),
    ['failed']
  )
})
