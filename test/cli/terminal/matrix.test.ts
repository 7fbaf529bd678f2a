/* svc list --matrix, with a real server: three environments of one application. */
import t from 'tap'
import { join } from 'node:path'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('list --matrix', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const flags = ['--matrix', '--server', server.url, '--token', '-']
  const list = (...more: string[]) => svc(['list', ...flags, ...more], { cwd, input: server.adminToken })
  const create = (name: string) => server.createProject({ name, deployPath: join(cwd, name) })
  const push = async (project: Awaited<ReturnType<typeof create>>, text: string) =>
    (await server.upload(project, { 'index.html': text }, { message: `Release ${text}` })).finished

  const [live, staging] = [await create('shop'), await create('shop-staging')]
  for (const text of ['1', '2', '3']) await push(staging, text)
  await push(live, '1')

  const { code, stdout, stderr } = await list()
  const [head = '', ...rows] = stdout.trimEnd().split('\n')
  t.equal(code, 0)
  t.match(head, /^APPLICATION +ENV +PROJECT +RELEASE +TREE +SINCE +DIFFERENCE$/)
  t.match(rows, [
    /^shop +staging +shop-staging +Release 3 /,
    /^ +production +shop +Release 1 .* 2 releases behind staging$/
  ])
  t.equal(rows.length, 2)
  t.match(stderr, 'Next: svc promote shop-staging shop')
  t.match(JSON.parse((await list('--json')).stdout), [{ name: 'shop', members: [{ projectName: 'shop-staging' }, {}] }])

  await push(live, '3')
  const same = await list()
  t.match(same.stdout, 'same files as staging')
  t.notMatch(same.stderr, 'svc promote', 'nothing is proposed that changes nothing')
})

t.test('without families', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  await server.createProject({ name: 'alone', deployPath: join(cwd, 'alone') })
  const found = await svc(['list', '--matrix', '--server', server.url, '--token', '-'], {
    cwd,
    input: server.adminToken
  })
  t.match(found, { code: 0, stdout: '', stderr: /No two projects are of one application/ })
})
