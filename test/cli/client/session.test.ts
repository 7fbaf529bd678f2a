import t, { type Test } from 'tap'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { whoami } from '../../../lib/cli/client/named-project.js'
import { loadConfiguration, openAdminApi, openDeploy, openProjectApi } from '../../../lib/cli/client/session.js'
import type { Context } from '../../../lib/cli/command.js'
import { adminToken, startServer } from '../../support/server.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'

/** What a command has in an empty directory with these variables, without a terminal. */
function contextIn(t: Test, variables: Record<string, string>): Context {
  const cwd = t.testdir({})
  const env = { HOME: cwd, SVC_HOME: `${cwd}/.svc`, ...variables }
  const stream = { isTTY: false }
  return {
    host: { env, cwd: () => cwd, stdin: stream, stdout: stream, stderr: stream },
    env,
    cwd,
    output: { warn() {}, note() {} },
    command: { options: {}, operands: {} }
  } as unknown as Context
}

const configOf = async (context: Context) =>
  (await loadConfiguration(context, { flags: {}, env: undefined, project: 'optional' })).config

t.test('server commands need the admin token; project commands accept both tokens', async t => {
  const { url, createProject } = await startServer(t)
  const { token, id } = await createProject('shop')

  const admin = contextIn(t, { SVC_SERVER_URL: url, SVC_TOKEN: adminToken })
  const asAdmin = await openAdminApi(admin, await configOf(admin))
  t.equal((await asAdmin.call('GET /api/projects')).length, 1)
  await t.rejects(openDeploy(admin, await configOf(admin)), { code: 'no_token' })

  const deploy = contextIn(t, { SVC_SERVER_URL: url, SVC_DEPLOY_TOKEN: token })
  const config = await configOf(deploy)
  t.match(await whoami(await openProjectApi(deploy, config)), { role: 'project', project: { id } })
  t.match(await whoami((await openDeploy(deploy, config)).client), { role: 'project' })
  await t.rejects(openAdminApi(deploy, config), { code: 'no_token' })

  const none = contextIn(t, { SVC_SERVER_URL: url })
  await t.rejects(openProjectApi(none, await configOf(none)), { code: 'no_token' })
})

t.test('a stored token is not sent to another server', async t => {
  const context = contextIn(t, { SVC_SERVER_URL: 'http://127.0.0.1:1' })
  const config = await configOf(context)
  const adminOfElsewhere = {
    value: 'a-token-0123456789',
    from: 'the file',
    source: 'global' as const,
    origin: 'https://elsewhere.example'
  }
  await t.rejects(openAdminApi(context, { ...config, adminToken: adminOfElsewhere }), { code: 'token_elsewhere' })
})

const question = 'Server address'
const nobody = 'http://127.0.0.1:1'

t.test('asks for an address until a server answers', { skip: noTerminal }, async t => {
  const { url } = await startServer(t)
  const cwd = join(t.testdirName)
  const steps = [
    { see: question, type: 'not an address\r' },
    { see: question, type: `${nobody}\r` },
    { see: question, type: `${url}\r` },
    { see: 'oken', type: `${adminToken}\r` }
  ]
  const { code, text } = await svcOnTerminal(['login'], steps, { cwd })
  t.equal(code, 0, text)
  t.match(text, nobody)
  const stored = JSON.parse(readFileSync(join(cwd, '.svc/config.json'), 'utf8')) as object
  t.match(stored, { serverUrl: url, tokenOrigin: url })
})

t.test('accepts the same address given twice even if no server answers', { skip: noTerminal }, async t => {
  const cwd = t.testdir({})
  const steps = [
    { see: question, type: `${nobody}\r` },
    { see: question, type: `${nobody}\r` },
    { see: 'oken', type: '\u0003' }
  ]
  const { text } = await svcOnTerminal(['login'], steps, { cwd })
  t.equal(text.split(question).length - 1, 2, text)
})
