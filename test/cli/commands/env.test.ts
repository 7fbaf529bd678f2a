import t from 'tap'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Context } from '../../../lib/cli/command.js'
import { openVariables } from '../../../lib/cli/commands/env.js'
import { startServe } from '../../support/serve-process.js'
import { adminToken, startServer } from '../../support/server.js'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'

t.test('uses the named project, otherwise the project of svc.config.json', async t => {
  const { url, createProject } = await startServer(t)
  const [named, configured] = [await createProject('named'), await createProject('configured')]
  const cwd = join(t.testdirName, 'site')
  mkdirSync(cwd, { recursive: true })
  const env = { HOME: cwd, SVC_HOME: join(cwd, '.svc'), SVC_TOKEN: adminToken }
  const stream = { isTTY: false }
  const context = {
    host: { env, cwd: () => cwd, stdin: stream, stdout: stream, stderr: stream },
    env,
    cwd,
    output: { warn() {}, note() {} },
    command: { options: {}, operands: {} }
  } as unknown as Context
  const asked = { project: undefined, env: undefined, server: url, token: undefined }
  await t.rejects(openVariables(context, asked), { name: 'Refusal' }, 'there is none')
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ projectId: configured.id, serverUrl: url }))
  const own = await openVariables(context, asked)
  t.equal(own.projectId, configured.id)
  const other = await openVariables(context, { ...asked, project: named.id })
  t.equal(other.projectId, named.id)
  t.match(await other.client.call('GET /api/projects/:id', { id: named.id }), { name: 'named' }, 'the API is open')
})

const secret = 'correct-horse-battery'

t.test('env', async t => {
  const cwd = t.testdir({
    '.env': '# of the shop\nexport PORT=8080\nGREETING="hello\\nyou"\n',
    'none.env': 'nothing\n',
    'bad.env': 'PATH=/x\nA=1\n'
  })
  const server = await startServe(t, cwd)
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ projectId: project.id }))
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const run = (words: string[], input?: string) =>
    svc(['env', ...words], { cwd, env, ...(input !== undefined && { input }) })
  const list = async (): Promise<object[]> => JSON.parse((await run(['list', '--json'])).stdout) as object[]

  await t.test('sets, lists and removes', async t => {
    t.match(await run(['list']), { code: 0, stdout: '', stderr: /no variables yet/ })
    t.match(await run(['set', 'NODE_ENV=production']), { code: 0, stdout: 'Set NODE_ENV\n' })
    t.match(await run(['set', 'EQUALS=a=b=']), { code: 0 })
    t.match(await run(['set', 'PASSWORD', '-'], `${secret}\n`), { code: 0, stdout: 'Set PASSWORD as a secret\n' })
    t.match(await run(['set', 'PEM', '-', '--secret'], 'line one\nline two\n'), { code: 0 })
    t.match(await run(['set', 'NOTE', '-', '--plain'], 'x'), { code: 0, stdout: 'Set NOTE\n' })
    t.match(await list(), [
      { name: 'EQUALS', value: 'a=b=' },
      { name: 'NODE_ENV', value: 'production', secret: false },
      { name: 'NOTE', value: 'x' },
      { name: 'PASSWORD', value: null, secret: true, hasValue: true },
      { name: 'PEM', value: null, secret: true }
    ])
    const { stdout } = await run(['list', '--project', project.id])
    t.match(stdout, /NAME +VALUE +CHANGED\nEQUALS +a=b=.*\nNODE_ENV +production.*\nNOTE.*\nPASSWORD +\*\*\* \(secret\)/)
    t.match(await run(['unset', 'NOTE,NOT_THERE']), { code: 1, stderr: /Nothing was removed: NOT_THERE is not set/ })
    t.match(await run(['unset', 'NOTE,EQUALS']), { code: 0, stdout: 'Removed NOTE, EQUALS\n' })
    t.strictSame(
      (await list()).map(each => (each as { name: string }).name),
      ['NODE_ENV', 'PASSWORD', 'PEM']
    )
  })

  await t.test('a secret is never read from the command line', async t => {
    t.match(await run(['set', `NEW=${secret}`, '--secret']), { code: 2, stderr: /cannot be part of the command/ })
    t.match(await run(['set', 'PASSWORD=else']), {
      code: 2,
      stderr: /PASSWORD is a secret\. Use "svc env set PASSWORD"/
    })
    t.match(await run(['set', 'NEW']), { code: 1, stderr: /no terminal to ask on: use "svc env set NEW -"/ })
    t.match(await run(['set', 'NEW', 'value']), { code: 2, stderr: /use "svc env set NEW=value"/ })
    t.match(await run(['set', 'PATH=/x']), { code: 2, stderr: /"PATH" can never be set/ })
    t.match(await run(['set', 'NEW', '-'], 'abc\n'), { code: 2, stderr: /too short for a secret/ })
    t.match(await run(['set', 'A=1', '--plain', '--secret']), { code: 2, stderr: /cannot be used together/ })
    t.equal((await list()).length, 3, 'nothing was changed')
  })

  await t.test('asks for the value on a terminal without showing it', { skip: noTerminal }, async t => {
    const { code, text } = await svcOnTerminal(
      ['env', 'set', 'PASSWORD'],
      [{ see: 'PASSWORD: ', type: 'another-secret\r' }],
      { cwd, env }
    )
    t.equal(code, 0, text)
    t.match(text, 'Set PASSWORD as a secret')
    t.notMatch(text, 'another-secret')
  })

  await t.test('imports a .env file completely or not at all', async t => {
    t.match(await run(['import', '.env']), { code: 0, stdout: 'Set 2 variables: PORT, GREETING\n' })
    t.match(await run(['import', '-', '--secret'], 'TOKEN=abcdefgh\n'), {
      code: 0,
      stdout: 'Set 1 variable as secrets: TOKEN\n'
    })
    t.match(await run(['import', '-'], 'PASSWORD=another-one\n'), { code: 0 })
    t.match(await list(), [
      { name: 'GREETING', value: 'hello\nyou' },
      { name: 'NODE_ENV' },
      { name: 'PASSWORD', secret: true, value: null },
      { name: 'PEM' },
      { name: 'PORT', value: '8080' },
      { name: 'TOKEN', secret: true }
    ])
    t.match(await run(['import', 'none.env']), {
      code: 2,
      stderr: /"none\.env" contains no variables: each line must be like NAME=value/
    })
    t.match(await run(['import', 'bad.env']), { code: 1, stderr: /cannot set "PATH"/ })
    t.match(await run(['import', 'not-there.env']), { code: 1, stderr: /not-there\.env/ })
    t.equal((await list()).length, 6)
  })

  await t.test('scripts get the variables, and the output masks the secrets', async t => {
    const push = await server.upload(
      project,
      { 'a.txt': 'one' },
      { postDeploy: 'echo "port $PORT, password $PASSWORD"' }
    )
    await push.finished
    t.match((await svc(['logs', push.deployId], { cwd, env })).stdout, /port 8080, password \*\*\*\n/)
  })
})
