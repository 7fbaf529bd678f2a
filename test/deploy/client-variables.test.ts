import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Project } from '../../lib/model/project.js'
import { admin, deployStage, type DeployStage } from '../support/deploy-stage.js'
import { createRandom, type Random } from '../support/random.js'
import { until } from '../support/until.js'
import { deploySays } from '../support/sentences/deploy.js'

/** Names that clients can never set, whatever the settings. */
const never = [
  'PATH',
  'LD_PRELOAD',
  'DYLD_INSERT_LIBRARIES',
  'NODE_OPTIONS',
  'BASH_ENV',
  'ENV',
  'IFS',
  'SHELLOPTS',
  'PYTHONPATH',
  'SVC_PROJECT_NAME',
  'SVC_TOKEN'
]
/** Names that make a program started by a script run code chosen by the client. */
const dangerous = [
  'GIT_CONFIG_COUNT',
  'GIT_CONFIG_KEY_0',
  'GIT_SSH',
  'GIT_EXTERNAL_DIFF',
  'TAR_OPTIONS',
  'npm_config_script_shell',
  'MAKEFLAGS',
  'EDITOR',
  'PAGER',
  'LESSOPEN',
  'RSYNC_RSH',
  'DOCKER_HOST',
  'http_proxy',
  'CC',
  'RUSTC_WRAPPER',
  'MAVEN_OPTS'
]
const harmless = [
  'APP_PORT',
  'APP_MODE',
  'APP_',
  'APPLE',
  'INHERITED',
  'VERSION',
  'x',
  '_y',
  'a-b',
  'app_port',
  'APP_%'
]
const pool = [...never, ...dangerous, ...harmless]
const listable = [
  'APP_*',
  'APP_PORT',
  'INHERITED',
  'VERSION',
  'GIT_SSH',
  'GIT_*',
  'x*',
  '_*',
  'P*',
  'L*',
  'N*',
  'A*',
  'B*',
  'MAKEFLAGS'
]

/** A second implementation of the filter's specification. */
function expected(sent: Record<string, string>, { allowedEnv }: Project, isOn: boolean): Record<string, string> {
  return Object.fromEntries(
    Object.entries(sent).filter(([name]) => {
      if (never.includes(name)) return false
      if (isOn) return true
      if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return false
      return allowedEnv.some(entry => (entry.endsWith('*') ? name.startsWith(entry.slice(0, -1)) : name === entry))
    })
  )
}

function randomCase(random: Random) {
  const names = new Set(random.some(12, () => random.oneOf(pool)))
  const sent = Object.fromEntries(
    [...names].map((name, index) => [name, random.oneOf([`of the client ${index}`, '', 'a=b\nc'])])
  )
  return {
    sent,
    allowedEnv: [...new Set(random.some(4, () => random.oneOf(listable)))],
    setting: random.oneOf([true, false]),
    ofProject: random.oneOf([null, true, false])
  }
}

/** Returns the environments of the scripts of one deployment, as seen by their processes. */
async function environmentsOf({ directory }: DeployStage, id: string): Promise<Array<Record<string, string>>> {
  return Promise.all(
    ['pre', 'post'].map(async step => {
      const text = await readFile(join(directory, `${step}-${id}`), 'utf8')
      return Object.fromEntries(
        text
          .split('\0')
          .filter(Boolean)
          .map(entry => {
            const at = entry.indexOf('=')
            return [entry.slice(0, at), entry.slice(at + 1)] as const
          })
      )
    })
  )
}

t.test('passes only allowed client variables to a script', async t => {
  const stage = await deployStage(t)
  const dump = (step: string): string => `env -0 > "${stage.directory}/${step}-$SVC_DEPLOY_ID.part"
mv "${stage.directory}/${step}-$SVC_DEPLOY_ID.part" "${stage.directory}/${step}-$SVC_DEPLOY_ID"`
  const project = await stage.addProject({ preDeployScript: dump('pre'), postDeployScript: dump('post') })

  async function run(given: Partial<Project>, env: Record<string, string>): Promise<string> {
    await stage.change(project, given)
    const { id, status } = await stage.deploy(project, { 'a.txt': 'a' }, { env })
    t.equal(status, 'success')
    return id
  }

  /** The environment without client variables: that of the server and the variables of svc. */
  const [pre, post] = (await environmentsOf(stage, await run({ postDeployAsync: false }, {}))) as [
    Record<string, string>,
    Record<string, string>
  ]
  t.equal(pre['INHERITED'], 'yes')
  t.notOk('ADMIN_TOKEN' in pre)
  const changing = (
    id: string,
    before: Record<string, string>,
    now: Record<string, string>
  ): Record<string, string> => ({
    ...before,
    SVC_DEPLOY_ID: id,
    SVC_SCRIPT: `${id}:${before['SVC_SCRIPT']?.split(':')[1]}`,
    SVC_PREVIOUS_DEPLOY_ID: now['SVC_PREVIOUS_DEPLOY_ID'] as string,
    SVC_CHANGES: now['SVC_CHANGES'] as string
  })

  const random = createRandom(2)
  for (let round = 0; round < 16; round++) {
    const { sent, allowedEnv, setting, ofProject } = randomCase(random)
    stage.values.allow_client_scripts = setting
    const id = await run({ allowedEnv, allowClientScripts: ofProject }, sent)
    const passing = expected(sent, { ...project, allowedEnv }, ofProject ?? setting)
    const wanted = { ...passing }
    const [preNow, postNow] = (await environmentsOf(stage, id)) as [Record<string, string>, Record<string, string>]
    // A shell drops variables whose name is not valid for it.
    for (const name of ['a-b', 'APP_%']) delete wanted[name]
    const circumstances = JSON.stringify({ round, allowedEnv, setting, ofProject, sent: Object.keys(sent) })
    t.strictSame(preNow, { ...changing(id, pre, preNow), ...wanted }, circumstances)
    t.strictSame(postNow, { ...changing(id, post, postNow), ...wanted }, circumstances)
    const output = await stage.output(id)
    for (const name of Object.keys(sent)) {
      t.equal(
        output.includes(JSON.stringify(name)),
        !(name in passing),
        `the output names ${name} exactly when it is left out`
      )
    }
  }
  t.equal(
    (
      await stage.output(await run({ allowClientScripts: false, allowedEnv: [] }, { GIT_SSH: 'secret-value' }))
    ).includes('secret-value'),
    false
  )
})

t.test('client scripts do not run if they are disabled while the upload is queued', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'until [ -e go ]; do sleep 0.02; done' })
  const source = await stage.addProject()
  const first = await stage.push(project, { 'a.txt': '1' })
  const waiting = await stage.push(project, { 'a.txt': '2' }, { postDeploy: 'touch harm' })
  await stage.change(project, { allowClientScripts: false })
  await writeFile(join(project.deployPath, 'go'), '')
  t.equal((await first.finished).status, 'success')
  t.match(await waiting.finished, {
    status: 'failed',
    scripts: [],
    errorMessage: deploySays.clientScriptsOff
  })
  t.notOk(existsSync(join(project.deployPath, 'harm')))
  t.equal(await readFile(join(project.deployPath, 'a.txt'), 'utf8'), '1')

  const ran = await stage.deploy(source, { 'a.txt': '1' }, { postDeploy: 'echo >> ran' })
  await stage.change(source, { preDeployScript: 'until [ -e go2 ]; do sleep 0.02; done' })
  const holding = await stage.push(source, { 'a.txt': '2' })
  const back = await stage.deployer.rollback(ran.id, { actor: admin })
  await stage.change(source, { allowClientScripts: false })
  await writeFile(join(source.deployPath, 'go2'), '')
  await holding.finished
  t.match(await back.finished, { status: 'success' })
  t.match(await stage.output(back.deployId), deploySays.leftOut('postDeploy'))
  t.equal(await readFile(join(source.deployPath, 'ran'), 'utf8'), '\n')
})

t.test('a rollback and a background script use the same list', async t => {
  const stage = await deployStage(t)
  const place = join(stage.directory, 'seen')
  const dump = `env > ${place}-$SVC_DEPLOY_ID.part; mv ${place}-$SVC_DEPLOY_ID.part ${place}-$SVC_DEPLOY_ID`
  const project = await stage.addProject({
    postDeployScript: dump,
    postDeployAsync: true,
    allowClientScripts: false,
    allowedEnv: ['APP_*']
  })
  const seen = (id: string): Promise<string> => until(() => readFile(`${place}-${id}`, 'utf8').catch(() => null))
  const env = { APP_PORT: '80', GIT_SSH: '/tmp/evil' }
  const { id } = await stage.deploy(project, { 'a.txt': 'a' }, { env })
  t.match(await seen(id), /^APP_PORT=80$/m)
  t.notMatch(await seen(id), 'GIT_SSH')
  const back = await (await stage.deployer.rollback(id, { actor: admin })).finished
  t.notMatch(await seen(back.id), /APP_PORT|GIT_SSH/)
})
