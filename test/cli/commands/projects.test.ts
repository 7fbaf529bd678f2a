import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Project } from '../../../lib/model/project.js'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'

t.test('a project is created, shown, changed and deleted', async t => {
  const cwd = t.testdir({ www: { 'kept.txt': '' } })
  const server = await startServeProcess(t, cwd)
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const run = (words: string[], input?: string) => svc(words, { cwd, env, ...(input !== undefined && { input }) })

  t.match(await run(['projects', 'create', 'shop']), { code: 2, stderr: /--path is missing/ })
  t.match(await run(['projects', 'create', 'shop', '--path', 'relative']), { code: 1, stderr: /^error: / })
  const path = join(cwd, 'www')
  const created = await run([
    'projects',
    'create',
    'shop',
    '--path',
    path,
    '--label',
    'staging',
    '--post',
    'true',
    '--json'
  ])
  t.equal(created.code, 0, created.stderr)
  const project = JSON.parse(created.stdout) as Project
  t.match(project, { name: 'shop', deployPath: path, env: 'staging', postDeployScript: 'true', token: /^\*\*\*\*/ })
  t.match(created.stderr, `svc init --project ${project.id}`)

  for (const words of [['projects', 'list'], ['list'], ['ls']])
    t.match((await run(words)).stdout, project.id, words.join(' '))
  t.match(await run(['projects']), { code: 0, stdout: /projects create/ })
  const shown = await run(['projects', 'show', 'shop'])
  t.match(shown.stdout, new RegExp(`^id +${project.id}$`, 'm'))
  t.match(shown.stdout, /^token +\*\*\*\*/m)

  t.match(await run(['projects', 'set', 'shop']), { code: 2, stderr: /Nothing to change/ })
  const strict = await run(['projects', 'set', 'shop', '--policy', 'drift=refuse', '--json'])
  t.same(JSON.parse(strict.stdout).policy, { drift: 'refuse' })
  t.match(await run(['projects', 'show', 'shop']), { stdout: /^policy +\{"drift":"refuse"\}$/m })
  t.match(await run(['projects', 'set', 'shop', '--policy', 'colour=red']), { code: 1, stderr: /policy\.colour/ })
  t.match(await run(['projects', 'set', 'shop', '--policy', 'drift=']), { code: 0 })
  const words = [
    'projects',
    'set',
    project.id,
    '--name',
    'store',
    '--post',
    '',
    '--client-scripts',
    'false',
    '--max-disk-mb',
    '7'
  ]
  t.match(await run(words), {
    code: 0,
    stdout: /^Changed name, postDeployScript, allowClientScripts, maxDiskMb of store /
  })
  t.match(await server.api('GET', `/api/projects/${project.id}`), {
    name: 'store',
    postDeployScript: '',
    allowClientScripts: false,
    maxDiskMb: 7
  })
  t.match(await run(['projects', 'set', 'store', '--client-scripts', 'default', '--max-disk-mb', '0']), { code: 0 })
  t.match(await server.api('GET', `/api/projects/${project.id}`), { allowClientScripts: null, maxDiskMb: null })
  const toAll = (...more: string[]) => run(['projects', 'set', '--all', '--client-scripts', 'false', ...more])
  t.match(await toAll('store'), { code: 2, stderr: /leave out "store"/ })
  t.match(await toAll('--post', 'true'), { code: 2, stderr: /no other setting/ })
  t.match(await run(['projects', 'set', '--client-scripts', 'false']), { code: 2, stderr: /The project is missing/ })
  t.match(await toAll(), { code: 1, stderr: /use --yes/ })
  t.match(await toAll('--yes'), { code: 0, stdout: /^Changed allowClientScripts of 1 project$/m })
  t.match(await server.api('GET', `/api/projects/${project.id}`), { allowClientScripts: false })
  t.match(await run(['projects', 'show', 'shop']), { code: 1, stderr: /Project not found: "shop"/ })

  const { stdout: first } = await run(['projects', 'token', 'store'])
  t.match(await run(['projects', 'token', 'store', '--new']), { code: 1, stderr: /no terminal to ask on: use --yes/ })
  const { stdout: second } = await run(['projects', 'token', 'store', '--new', '--yes'])
  t.not(first, second)
  t.equal((await server.api<Project>('GET', `/api/projects/${project.id}`)).token, second.trim())
  t.match(
    await run(['projects', 'show', 'store', '--token', '-'], second.trim()),
    { code: 1, stderr: /this request requires the admin/ },
    'a deploy token does not manage'
  )

  t.match(await run(['projects', 'delete', 'store']), { code: 1, stderr: /[Uu]se --yes/ })
  await t.test('delete asks on a terminal', { skip: noTerminal }, async t => {
    const no = await svcOnTerminal(['projects', 'delete', 'store'], [{ see: '[y/N]: ', type: 'n\r' }], { cwd, env })
    t.match(no, { code: 1, text: /Delete store \(proj_\w+\)[^]*Nothing was deleted/ })
  })
  t.match(await run(['projects', 'delete', 'store', '--yes']), { code: 0, stdout: /^Deleted store / })
  t.match(await server.api('GET', '/api/projects'), [])
  t.ok(existsSync(join(path, 'kept.txt')), 'the files stay')
})
