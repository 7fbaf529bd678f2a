import { join } from 'node:path'
import t from 'tap'
import type { ClientConfig } from '../../../lib/base/config/client-config.js'
import { type GlobalConfig, locateHome } from '../../../lib/base/config/home.js'
import {
  configRows,
  effectiveConfig,
  loadLayers,
  maskToken,
  type EffectiveConfig,
  type Flags,
  type Layers
} from '../../../lib/base/config/precedence.js'
import { configSays } from '../../support/sentences/config.js'
import { matching } from '../../support/sentences/matching.js'

interface Given {
  flags?: Flags
  environment?: Record<string, string>
  dotenv?: Record<string, string>
  project?: Partial<ClientConfig>
  global?: GlobalConfig
  env?: string
}

function layers({ flags = {}, environment = {}, dotenv = {}, project, global = {}, env }: Given): Layers {
  return {
    flags,
    environment,
    dotenv: { path: '.env.local', values: dotenv, problem: null, warnings: [] },
    project:
      project === undefined
        ? null
        : { path: 'svc.config.json', env: null, config: { projectId: 'p', ...project }, warnings: [] },
    global: { path: 'config.json', config: global },
    env: env ?? null
  }
}

t.test('takes each key from the first layer that has it', t => {
  const g = { serverUrl: 'http://global' }
  const p = { serverUrl: 'http://project' }
  const all = { global: g, project: p, dotenv: { SVC_SERVER_URL: 'http://dotenv' } }
  const tokens = { projectToken: { p: 'plain', 'p:prod': 'prod', q: 'other' } }
  const table: Array<
    [key: keyof EffectiveConfig, given: Given, value: unknown, source: string | undefined, from?: string]
  > = [
    [
      'serverUrl',
      { ...all, environment: { SVC_SERVER_URL: 'http://env' }, flags: { server: 'http://flag/' } },
      'http://flag',
      'flag',
      '--server'
    ],
    [
      'serverUrl',
      { ...all, environment: { SVC_SERVER_URL: 'http://env' } },
      'http://env',
      'environment',
      'SVC_SERVER_URL'
    ],
    ['serverUrl', all, 'http://dotenv', '.env.local', 'SVC_SERVER_URL in .env.local'],
    [
      'serverUrl',
      { ...all, dotenv: {}, environment: { SVC_SERVER_URL: '' } },
      'http://project',
      'project',
      'svc.config.json'
    ],
    ['serverUrl', { global: g, project: {} }, 'http://global', 'global', 'config.json'],
    ['serverUrl', { global: { serverUrl: '' } }, undefined, undefined],

    ['projectId', { project: {}, flags: { project: 'q' } }, 'q', 'flag', '--project'],
    ['projectId', { project: {} }, 'p', 'project'],
    ['projectId', {}, undefined, undefined],

    [
      'deployToken',
      { flags: { token: 'f' }, environment: { SVC_DEPLOY_TOKEN: 'e' }, project: {}, global: tokens },
      'f',
      'flag',
      '--token'
    ],
    [
      'deployToken',
      { environment: { SVC_DEPLOY_TOKEN: 'e' }, dotenv: { SVC_DEPLOY_TOKEN: 'd' }, global: tokens },
      'e',
      'environment'
    ],
    ['deployToken', { dotenv: { SVC_DEPLOY_TOKEN: 'd' }, project: {}, global: tokens, env: 'prod' }, 'd', '.env.local'],
    [
      'deployToken',
      { project: {}, global: tokens, env: 'prod' },
      'prod',
      'global',
      'projectToken "p:prod" in config.json'
    ],
    ['deployToken', { project: {}, global: tokens, env: 'dev' }, 'plain', 'global', 'projectToken "p" in config.json'],
    ['deployToken', { project: {}, global: tokens }, 'plain', 'global'],
    ['deployToken', { project: {}, flags: { project: 'q' }, global: tokens }, 'other', 'global'],
    ['deployToken', { project: { projectId: '__proto__' }, global: tokens }, undefined, undefined],
    [
      'deployToken',
      { project: {}, environment: { SVC_TOKEN: 'admin' }, global: { token: 'admin' } },
      undefined,
      undefined
    ],

    ['adminToken', { flags: { token: 'f' }, environment: { SVC_TOKEN: 'e' }, global: { token: 'g' } }, 'f', 'flag'],
    [
      'adminToken',
      { environment: { SVC_TOKEN: 'e' }, dotenv: { SVC_TOKEN: 'd' }, global: { token: 'g' } },
      'e',
      'environment'
    ],
    ['adminToken', { dotenv: { SVC_TOKEN: 'd' }, global: { token: 'g' } }, 'd', '.env.local'],
    ['adminToken', { environment: { SVC_DEPLOY_TOKEN: 'no' }, global: { token: 'g' } }, 'g', 'global'],

    ['outputDir', { flags: { out: 'a' }, project: { outputDir: 'b' } }, 'a', 'flag'],
    ['outputDir', { project: { outputDir: 'b' } }, 'b', 'project'],
    ['outputDir', {}, './', 'default'],
    ['files', { project: { files: ['a'] } }, ['a'], 'project'],
    ['files', {}, [], 'default'],
    ['ignoreBuiltin', { flags: { noIgnoreBuiltin: true }, project: { ignoreBuiltin: false } }, true, 'flag'],
    ['ignoreBuiltin', { flags: { noIgnoreBuiltin: false }, project: { ignoreBuiltin: true } }, true, 'project'],
    ['ignoreBuiltin', {}, false, 'default'],
    ['projectIgnore', { flags: { ignore: ['x'] }, project: { ignore: ['y'] } }, ['y'], 'project'],
    ['cliIgnore', { flags: { ignore: ['x'] }, project: { ignore: ['y'] } }, ['x'], 'flag', '--ignore'],

    ['preDeploy', { flags: { pre: '' }, project: { preDeploy: 'b' } }, '', 'flag'],
    ['preDeploy', { project: { preDeploy: 'b' } }, 'b', 'project'],
    ['postDeploy', { flags: { post: 'a' }, project: { postDeploy: 'b' } }, 'a', 'flag', '--post'],
    ['postDeploy', { flags: { command: 'a' }, project: { postDeploy: 'b' } }, 'a', 'flag', '--command'],
    ['postDeploy', {}, undefined, undefined],

    [
      'postDeployAsync',
      {
        flags: { postDeployAsync: true },
        environment: { SVC_POST_DEPLOY_ASYNC: '0' },
        project: { postDeployAsync: false }
      },
      true,
      'flag'
    ],
    [
      'postDeployAsync',
      { environment: { SVC_POST_DEPLOY_ASYNC: '0' }, project: { postDeployAsync: true } },
      false,
      'environment'
    ],
    [
      'postDeployAsync',
      { dotenv: { SVC_POST_DEPLOY_ASYNC: 'true' }, project: { postDeployAsync: false } },
      true,
      '.env.local'
    ],
    ['postDeployAsync', { dotenv: { SVC_POST_DEPLOY_ASYNC: '1' } }, true, '.env.local'],
    ['postDeployAsync', { environment: { SVC_POST_DEPLOY_ASYNC: 'false' } }, false, 'environment'],
    ['postDeployAsync', { project: { postDeployAsync: true } }, true, 'project'],
    ['postDeployAsync', {}, false, 'default']
  ]
  for (const [key, given, value, source, from] of table) {
    const found = effectiveConfig(layers(given))[key] as { value: unknown; source: string; from: string } | null
    const what = `${key} of ${JSON.stringify(given)}`
    t.strictSame(found?.value, value, what)
    t.equal(found?.source, source, what)
    if (from !== undefined) t.equal(found?.from, from, what)
  }
  t.end()
})

t.test('merges variables for scripts key by key', t => {
  const { env } = effectiveConfig(
    layers({ flags: { setEnv: { A: '1', B: '2' } }, project: { env: { B: '0', C: '3' } } })
  )
  t.strictSame(Object.fromEntries(Object.entries(env).map(([key, item]) => [key, `${item.value} ${item.source}`])), {
    A: '1 flag',
    B: '2 flag',
    C: '3 project'
  })
  t.end()
})

t.test('the white space that secret stores add is not part of a token', t => {
  for (const token of ['tok\n', 'tok\r\n', ' tok ', '\ufefftok']) {
    const given = [{ flags: { token } }, { environment: { SVC_TOKEN: token } }, { dotenv: { SVC_TOKEN: token } }]
    for (const one of [...given, { global: { token } }])
      t.equal(effectiveConfig(layers(one)).adminToken?.value, 'tok', JSON.stringify(one))
  }
  t.equal(
    effectiveConfig(layers({ environment: { SVC_TOKEN: '\n' }, dotenv: { SVC_TOKEN: 'b' } })).adminToken?.value,
    'b'
  )
  t.end()
})

t.test('refuses invalid values and names their source', t => {
  const table: Array<[given: Given, code: string, sentence: string]> = [
    [
      { environment: { SVC_POST_DEPLOY_ASYNC: 'yes' } },
      'invalid_switch',
      configSays.switchCannotBe('SVC_POST_DEPLOY_ASYNC', 'yes')
    ],
    [
      { dotenv: { SVC_POST_DEPLOY_ASYNC: 'toString' } },
      'invalid_switch',
      configSays.switchCannotBe('SVC_POST_DEPLOY_ASYNC in .env.local', 'toString')
    ],
    [{ flags: { server: 'localhost' } }, 'invalid_server_url', 'localhost'],
    [{ global: { serverUrl: 'x' } }, 'invalid_server_url', 'config.json'],
    [{ flags: { post: 'a', command: 'b' } }, 'flags_conflict', '--command'],
    [{ environment: { SVC_DEPLOY_TOKEN: 'a\nb' } }, 'invalid_field', 'SVC_DEPLOY_TOKEN'],
    [{ global: { token: 'a\u200b' } }, 'invalid_field', 'config.json']
  ]
  for (const [given, code, message] of table) t.throws(() => effectiveConfig(layers(given)), { code, message })
  t.end()
})

t.test('masks tokens', t => {
  t.equal(maskToken('abcdefghijklmnop'), '****mnop')
  t.equal(maskToken('short'), '****')
  const rows = configRows(
    effectiveConfig(
      layers({
        flags: { token: 'very-secret-token' },
        project: { ignore: ['a', 'b'], env: { A: '1' } },
        global: { token: 'x' }
      })
    )
  )
  t.strictSame(
    rows.map(row => `${row.key} ${row.value} ${row.source}`),
    [
      'projectId p project',
      'deployToken ****oken flag',
      'adminToken ****oken flag',
      'outputDir ./ default',
      'files everything default',
      'ignore a, b project',
      'ignoreBuiltin false default',
      'postDeployAsync false default',
      'env.A 1 project'
    ]
  )
  t.end()
})

t.test('reads the layers of a working directory', async t => {
  const file = (projectId: string): string => JSON.stringify({ projectId })
  const directory = t.testdir({
    none: {},
    named: { '.env.local': 'SVC_PROJECT_ID=x\n' },
    spaced: { 'svc.config.json': file(' a\t') },
    one: { 'svc.config.json': file('a'), '.env.local': 'SVC_TOKEN=t' },
    plain: { 'svc.config.json': file('plain'), 'svc.config.dev.json': file('d'), 'svc.config.prod.json': file('p') },
    several: { 'svc.config.dev.json': file('d'), 'svc.config.prod.json': file('p') },
    home: { 'config.json': '{"token": "g"}' }
  })
  const load = (where: string, options: Partial<Parameters<typeof loadLayers>[0]> = {}): Promise<Layers> =>
    loadLayers({
      cwd: join(directory, where),
      environment: {},
      home: locateHome({ SVC_HOME: join(directory, 'home') }),
      project: 'needed',
      ...options
    })

  t.match(await load('one'), {
    project: { config: { projectId: 'a' } },
    dotenv: { values: { SVC_TOKEN: 't' } },
    global: { config: { token: 'g' } },
    env: null
  })
  t.match(await load('several', { env: 'prod' }), { project: { config: { projectId: 'p' } }, env: 'prod' })
  t.match(await load('several', { project: 'optional' }), { project: null, env: null })
  t.match(await load('none', { project: 'optional' }), { project: null })
  t.match(await load('none', { flags: { project: 'x' } }), { project: null })
  t.match(await load('none', { environment: { SVC_PROJECT_ID: 'x' } }), { project: null })
  t.match(await load('named'), { project: null, dotenv: { values: { SVC_PROJECT_ID: 'x' } } })
  t.equal(effectiveConfig(await load('spaced')).projectId?.value, 'a')
  const inScript = { environment: { SVC_PROJECT_ID: 'x', SVC_DEPLOY_ID: 'dep_a' } }
  await t.rejects(load('none', inScript), { code: 'no_client_config' }, 'says what that deployment is')
  await t.rejects(load('none'), { code: 'no_client_config', message: configSays.initWritesOne })
  await t.rejects(load('none', { projectHint: 'name the project with --project' }), {
    code: 'no_client_config',
    message: matching(configSays.initWritesOne, ', or name the project with --project')
  })
  await t.rejects(load('several'), {
    code: 'env_needed',
    kind: 'usage',
    message: configSays.environmentNeeded('dev', 'prod')
  })
  for (const options of [{}, { env: 'default' }, { project: 'optional' }] as const) {
    t.match(
      await load('plain', options),
      { project: { config: { projectId: 'plain' } }, env: null },
      'nobody can be asked'
    )
  }
  const chosen = await load('several', {
    choose: async choices => {
      t.strictSame(choices, ['dev', 'prod'])
      return 'dev'
    }
  })
  t.match(chosen, { project: { config: { projectId: 'd' } }, env: 'dev' })
})
