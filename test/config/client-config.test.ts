import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import {
  clientConfigPath,
  listEnvironments,
  parseServerUrl,
  readClientConfig,
  selectEnvironment,
  writeClientConfig
} from '../../lib/config/client-config.js'
import { configSays } from '../support/sentences/config.js'
import { matching } from '../support/sentences/matching.js'

t.test('refuses a wrong value of every key and names file and key', async t => {
  const table: Array<[json: unknown, code: string, sentence: string]> = [
    [{}, 'invalid_config', configSays.projectIdMissing],
    [{ projectId: 1 }, 'invalid_config', `"projectId" is a number${configSays.textExpected}`],
    [{ projectId: ' ' }, 'invalid_config', `"projectId"${configSays.isEmpty}`],
    [{ projectId: 'p', outputDir: 1 }, 'invalid_config', `"outputDir" is a number${configSays.textExpected}`],
    [{ projectId: 'p', outputDir: null }, 'invalid_config', `"outputDir" is null${configSays.textExpected}`],
    [{ projectId: 'p', files: 'dist' }, 'invalid_config', `"files" is "dist"${configSays.listExpected}`],
    [{ projectId: 'p', files: ['a', 'b', 3] }, 'invalid_config', `"files[2]" is a number${configSays.textExpected}`],
    [{ projectId: 'p', ignore: [''] }, 'invalid_config', `"ignore[0]"${configSays.isEmpty}`],
    [
      { projectId: 'p', ignoreBuiltin: 'yes' },
      'invalid_config',
      `"ignoreBuiltin" is "yes"${configSays.switchExpected}`
    ],
    [{ projectId: 'p', serverUrl: 'deploy.example.com' }, 'invalid_config', `"serverUrl"${configSays.addressExpected}`],
    [{ projectId: 'p', serverUrl: 'ftp://x' }, 'invalid_config', `"serverUrl"${configSays.addressExpected}`],
    [{ projectId: 'p', env: [] }, 'invalid_config', `"env" is a list${configSays.objectExpected}`],
    [{ projectId: 'p', env: { PORT: 80 } }, 'invalid_config', `"env.PORT"${configSays.mustBeQuoted}`],
    [{ projectId: 'p', env: { 'A B': '' } }, 'invalid_config', `"env.A B"${configSays.noVariableName}`],
    [{ projectId: 'p', preDeploy: false }, 'invalid_config', `"preDeploy" is a boolean${configSays.textExpected}`],
    [{ projectId: 'p', postDeploy: [] }, 'invalid_config', `"postDeploy" is a list${configSays.textExpected}`],
    [
      { projectId: 'p', postDeployAsync: 'on' },
      'invalid_config',
      `"postDeployAsync" is "on"${configSays.switchExpected}`
    ],
    [{ projectId: 'p', token: 'secret' }, 'token_in_config', configSays.tokenInConfig],
    [{ projectId: 'p', deployToken: 'secret' }, 'token_in_config', configSays.tokenInConfig],
    [{ projectId: 'p', SVC_DEPLOY_TOKEN: 'secret' }, 'token_in_config', configSays.tokenInConfig],
    [[], 'broken_config', configSays.notAnObject]
  ]
  for (const [json, code, sentence] of table) {
    const directory = t.testdir({ 'svc.config.json': JSON.stringify(json) })
    const error = await readClientConfig(directory, null).then(
      () => t.fail('was accepted'),
      (error: unknown) => error
    )
    t.match(error, { code, message: 'svc.config.json' }, sentence)
    t.match((error as Error).message, sentence)
    t.notMatch((error as Error).message, 'secret')
  }
})

t.test('reads a complete file and warns about unknown keys', async t => {
  const config = {
    projectId: 'p',
    outputDir: 'dist',
    files: [],
    ignore: ['*.map'],
    ignoreBuiltin: true,
    serverUrl: 'https://d.example.com/svc/',
    env: { A: '' },
    preDeploy: '',
    postDeploy: 'x',
    postDeployAsync: false
  }
  const directory = t.testdir({
    'svc.config.prod.json': JSON.stringify({ ...config, $schema: 'x', output_dir: 1, later: 2 })
  })
  const file = await readClientConfig(directory, 'prod')
  t.match(file.config, config)
  t.equal(file.env, 'prod')
  t.strictSame(
    file.warnings.map(warning => warning.replace(/^.*prod\.json: /, '')),
    [configSays.unknownKey('output_dir') + configSays.didYouMean('outputDir'), configSays.unknownKey('later')]
  )
})

t.test('names a missing or broken file', async t => {
  const directory = t.testdir({ 'svc.config.b.json': '{,}' })
  await t.rejects(readClientConfig(directory, null), { code: 'no_client_config', message: configSays.initWritesOne })
  await t.rejects(readClientConfig(directory, 'b'), {
    code: 'broken_config',
    message: matching(configSays.unreadable('svc.config.b.json'), /.* in line 1,/)
  })
})

t.test('selects the environment', async t => {
  const file = '{"projectId": "p"}'
  const table: Array<[files: string[], env: string | null, selection: unknown]> = [
    [[], null, { outcome: 'none' }],
    [['svc.config.json'], null, { outcome: 'found', env: null }],
    [['svc.config.prod.json'], null, { outcome: 'found', env: 'prod' }],
    [['svc.config.json', 'svc.config.prod.json'], null, { outcome: 'found', env: null }],
    [['svc.config.json', 'svc.config.prod.json'], 'prod', { outcome: 'found', env: 'prod' }],
    [
      ['svc.config.prod.json', 'svc.config.dev.json'],
      null,
      { outcome: 'ambiguous', environments: ['dev', 'prod'], hasDefault: false }
    ],
    [
      ['svc.config.json', 'svc.config.b.json', 'svc.config.a.json'],
      null,
      { outcome: 'ambiguous', environments: ['a', 'b'], hasDefault: true }
    ],
    [['svc.config.json', 'svc.config.b.json', 'svc.config.a.json'], 'default', { outcome: 'found', env: null }],
    [['svc.config.json', 'svc.config.default.json'], 'default', { outcome: 'found', env: 'default' }],
    [
      ['svc.config.json', 'svc.config..json', 'svc.config.a b.json', 'xsvc.config.c.json'],
      null,
      { outcome: 'found', env: null }
    ]
  ]
  for (const [files, env, selection] of table) {
    const directory = t.testdir(Object.fromEntries(files.map(name => [name, file])))
    t.strictSame(await selectEnvironment(directory, env), selection, files.join(' '))
  }
})

t.test('refuses an environment without a file and lists the existing ones', async t => {
  const directory = t.testdir({ 'svc.config.json': '{}', 'svc.config.prod.json': '{}' })
  await t.rejects(selectEnvironment(directory, 'pord'), {
    code: 'no_such_environment',
    message: configSays.noFileForEnvironment(
      'svc\\.config\\.pord\\.json',
      'svc\\.config\\.json \\(--env default\\), svc\\.config\\.prod\\.json'
    )
  })
  for (const env of ['../x', 'a/b', '', '.', 'a b']) {
    await t.rejects(selectEnvironment(directory, env), { code: 'invalid_env' }, `"${env}"`)
  }
  t.throws(() => clientConfigPath('/', '..'), { code: 'invalid_env' })
  t.strictSame(await listEnvironments(directory), [null, 'prod'])
  t.strictSame(await listEnvironments(join(directory, 'none')), [])
})

t.test('checks a configuration before it is written', async t => {
  const directory = t.testdir({})
  const path = await writeClientConfig(directory, 'prod', { projectId: 'p', outputDir: 'dist' })
  t.equal(path, join(directory, 'svc.config.prod.json'))
  t.equal(await readFile(path, 'utf8'), '{\n  "projectId": "p",\n  "outputDir": "dist"\n}\n')
  await writeFile(path, 'kept')
  await t.rejects(writeClientConfig(directory, 'prod', { projectId: '' }), { code: 'invalid_config' })
  t.equal(await readFile(path, 'utf8'), 'kept')
})

t.test('accepts addresses of servers without a query, fragment or password', t => {
  const table: Array<[address: string, parsed: string | null]> = [
    ['http://127.0.0.1:5431', 'http://127.0.0.1:5431'],
    ['https://a.example/svc/', 'https://a.example/svc'],
    ['https://a.example//', 'https://a.example'],
    ['HTTP://A.example', 'http://a.example'],
    ['localhost:5431', null],
    ['https://a.example/?x=1', null],
    ['https://a.example/#x', null],
    ['https://user:pass@a.example', null],
    ['', null]
  ]
  for (const [address, parsed] of table) t.equal(parseServerUrl(address), parsed, address)
  t.end()
})
