import t from 'tap'
import type { Test } from 'tap'
import { dirname, join } from 'node:path'
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import {
  chooseScripts,
  type ChosenScript,
  findRunner,
  mayClientsSendScripts,
  refuseClientScripts,
  runScript,
  type ScriptStage,
  startScript,
  workingDirectory
} from '../../../lib/deploy/scripts/scripts.js'
import { deploySays } from '../../support/sentences/deploy.js'
import { systemClock } from '../../../lib/base/clock.js'
import { StopRequest } from '../../../lib/deploy/failure.js'
import { createMasker } from '../../../lib/deploy/scripts/environment.js'
import { openOutput } from '../../../lib/deploy/output/output.js'
import { readTail } from '../../../lib/deploy/output/stored-output.js'
import type { DeploymentStep } from '../../../lib/model/deployment.js'
import { until } from '../../support/until.js'
import { matching } from '../../support/sentences/matching.js'

const none = { preDeployScript: '', postDeployScript: '', postDeployAsync: false }

t.test('scripts of the project take precedence over those of the client (§4.6)', async t => {
  type Case = { what: string; platform: string; client: string | undefined; source: string | null; line?: string }
  const cases: Case[] = [
    { what: 'neither', platform: '', client: undefined, source: null },
    { what: 'blank scripts do not count', platform: ' \n', client: ' ', source: null },
    {
      what: 'client only',
      platform: '',
      client: 'make',
      source: 'client',
      line: deploySays.sentByClient('post-deploy')
    },
    {
      what: 'platform only',
      platform: 'up',
      client: undefined,
      source: 'platform',
      line: deploySays.setOnServer('post-deploy')
    },
    {
      what: 'both',
      platform: 'up',
      client: 'make',
      source: 'platform',
      line: deploySays.clientsIgnored('post-deploy')
    }
  ]
  for (const { what, platform, client, source, line } of cases) {
    const scripts = chooseScripts(
      { ...none, preDeployScript: platform, postDeployScript: platform },
      { origin: 'upload', preDeploy: client, postDeploy: client }
    )
    t.equal(scripts.postDeploy?.source ?? null, source, what)
    t.equal(scripts.preDeploy?.source ?? null, source, what)
    t.equal(scripts.postDeploy?.line, line, what)
    t.equal(scripts.preDeploy?.line, line?.replace('post', 'pre'), what)
    if (source !== null) t.equal(scripts.postDeploy?.script, source === 'client' ? client : platform, what)
  }
})

t.test('decides whether a script runs in the background (§4.6)', async t => {
  const cases: Array<{ flag: boolean; client: boolean | undefined; async: boolean; line: string }> = [
    { flag: false, client: undefined, async: false, line: deploySays.sentByClient('post-deploy') },
    { flag: false, client: false, async: false, line: deploySays.sentByClient('post-deploy') },
    { flag: false, client: true, async: true, line: deploySays.askedForByClient },
    { flag: true, client: undefined, async: true, line: deploySays.forced },
    {
      flag: true,
      client: false,
      async: true,
      line: deploySays.forcedOverClient
    },
    {
      flag: true,
      client: true,
      async: true,
      line: deploySays.forcedOverClient
    }
  ]
  for (const { flag, client, async, line } of cases) {
    const what = `project ${flag}, client ${client}`
    const { preDeploy, postDeploy } = chooseScripts(
      { ...none, postDeployAsync: flag },
      { origin: 'upload', preDeploy: 'a', postDeploy: 'b', postDeployAsync: client }
    )
    t.equal(postDeploy?.async, async, what)
    t.match(postDeploy?.line, line, what)
    t.equal(preDeploy?.async, false, 'a pre-deploy script never runs in the background')
  }
})

t.test('a rollback says that it runs the script of the source', async t => {
  const { postDeploy } = chooseScripts(none, { origin: 'source deployment', postDeploy: 'b', postDeployAsync: true })
  t.equal(postDeploy?.line, deploySays.asInSource('post-deploy') + deploySays.inBackground)
  const own = chooseScripts({ ...none, postDeployScript: 'c' }, { origin: 'source deployment', postDeploy: 'b' })
  t.equal(own.postDeploy?.line, deploySays.sourcesNotUsed('post-deploy'))
})

t.test('the project decides about client scripts, else the setting', async t => {
  for (const setting of [true, false]) {
    t.equal(mayClientsSendScripts({ allowClientScripts: null }, setting), setting)
    t.equal(mayClientsSendScripts({ allowClientScripts: true }, setting), true)
    t.equal(mayClientsSendScripts({ allowClientScripts: false }, setting), false)
  }
  const off = { allowClientScripts: false }
  t.throws(() => refuseClientScripts(off, true, { postDeploy: 'x' }), {
    kind: 'forbidden',
    code: 'client_scripts_off',
    field: 'postDeploy'
  })
  t.throws(() => refuseClientScripts({ allowClientScripts: null }, false, { preDeploy: 'x' }), {
    field: 'preDeploy',
    code: 'client_scripts_off'
  })
  t.doesNotThrow(() => refuseClientScripts(off, true, { preDeploy: '', postDeploy: undefined }))
  t.doesNotThrow(() => refuseClientScripts({ allowClientScripts: null }, true, { preDeploy: 'x' }))
})

const chosen = (script: string, async = false): ChosenScript => ({
  step: 'postDeploy',
  source: 'client',
  script,
  async,
  line: 'the line'
})
const step = (): DeploymentStep => ({ name: 'postDeploy', status: 'running', startedAt: '', endedAt: null })

async function scriptStage(t: Test, patch: Partial<ScriptStage> = {}) {
  const target = t.testdir({})
  const path = join(target, 'dep.log')
  const output = await openOutput({ path, clock: systemClock })
  const ran: string[] = []
  const env = { PATH: process.env['PATH'], NAME: 'value' }
  const onRan = (script: ChosenScript): void => void ran.push(script.script)
  const processes = { markerOf: () => ({ name: 'SVC_SCRIPT', value: 'a' }), began() {}, ended() {} }
  const stage: ScriptStage = {
    processes,
    target,
    directory: null,
    shell: null,
    isFirst: false,
    umask: null,
    masker: createMasker([]),
    timeoutFrom: 'setting script_timeout',
    rights: null,
    env,
    timeoutMs: 5000,
    output,
    signal: new AbortController().signal,
    onRan,
    ...patch
  }
  const text = async (): Promise<string> => {
    await output.flush()
    return (await readTail(path, { maxBytes: 10_000 })).text
  }
  return { stage, text, ran }
}

t.test('runs a script in the target and records its lines and its end', async t => {
  const { stage, text, ran } = await scriptStage(t)
  const recorded = step()
  t.equal(
    await runScript(stage, chosen('echo "$NAME"; echo err >&2; pwd'), recorded),
    deploySays.ended('post-deploy', 0)
  )
  t.equal(recorded.exitCode, 0)
  t.equal(await text(), `→ the line\nvalue\nerr\n${stage.target}\n`)
  t.strictSame(ran, ['echo "$NAME"; echo err >&2; pwd'])
  t.equal(await runScript(stage, null, step()), null)
})

t.test('describes each kind of failure', async t => {
  const cases = [
    { script: 'exit 9', message: deploySays.failedWith('post-deploy', 9) },
    { script: 'kill -TERM $$', message: deploySays.endedBySignal('post-deploy', 'SIGTERM') },
    {
      script: 'exec sleep 9',
      timeoutMs: 50,
      message: deploySays.ranTooLong('post-deploy', 0.05)
    },
    {
      script: 'true',
      target: '/nowhere',
      message: matching(/^/, deploySays.didNotRun('The post-deploy script'), /.*/, deploySays.noDirectory('/nowhere'))
    }
  ]
  for (const { script, message, ...patch } of cases) {
    const { stage } = await scriptStage(t, patch)
    await t.rejects(runScript(stage, chosen(script), step()), { name: 'StepFailure', message })
  }
})

t.test('a request to stop ends the script and is thrown', async t => {
  const stopping = new AbortController()
  const { stage, ran } = await scriptStage(t, { signal: stopping.signal })
  const request = new StopRequest('cancel', 'Cancelled')
  const running = runScript(stage, chosen('exec sleep 9'), step())
  await until(() => ran.length > 0)
  stopping.abort(request)
  await t.rejects(running, request)
})

t.test('a background script returns once it runs and ends later', async t => {
  const { stage, ran } = await scriptStage(t)
  for (const [script, complaint] of [
    ['sleep 0.1', null],
    ['sleep 0.1; exit 2', deploySays.failedInBackground(2)]
  ] as const) {
    const recorded = step()
    const { sentence, tail } = await startScript(stage, chosen(script, true), recorded)
    t.equal(sentence, deploySays.startedInBackground)
    t.equal(recorded.exitCode, null)
    t.equal(await tail, complaint)
    t.equal(recorded.exitCode, complaint === null ? 0 : 2)
  }
  t.equal(ran.length, 2)
})

t.test('a background script that cannot be started fails at once', async t => {
  const { stage, ran } = await scriptStage(t, { target: '/nowhere' })
  await t.rejects(startScript(stage, chosen('true', true), step()), {
    name: 'StepFailure',
    message: deploySays.didNotRun('The post-deploy script in the background')
  })
  t.strictSame(ran, [])
})

t.test('the working directory must exist within the target', async t => {
  const target = join(t.testdir(), 'target')
  mkdirSync(join(target, 'apps/web'), { recursive: true })
  mkdirSync(join(dirname(target), 'outside'))
  writeFileSync(join(target, 'file'), '')
  symlinkSync('apps', join(target, 'inside'))
  symlinkSync('../outside', join(target, 'link'))
  const at = (directory: string | null, { isFirst = false, isBeforeFiles = false } = {}) =>
    workingDirectory({ target, directory, shell: null, isFirst }, { title: 'The script', isBeforeFiles })
  t.strictSame(await at(null), { path: target, isPlain: false })
  t.strictSame(await at('apps/web'), { path: join(target, 'apps/web'), isPlain: false })
  t.strictSame(await at('inside/web'), { path: join(target, 'apps/web'), isPlain: false }, 'a link that stays in it')
  await t.rejects(at('apps/none'), {
    message: deploySays.didNotRun('The script') + deploySays.workingDirectoryMissing('apps/none')
  })
  await t.rejects(at('file'), { message: deploySays.workingDirectoryIsFile('file') })
  await t.rejects(at('file/x'), { message: deploySays.workingDirectoryMissing('file/x') })
  await t.rejects(at('link'), { message: deploySays.workingDirectoryOutside('link') })
  await t.rejects(at('none', { isBeforeFiles: true }), {
    message: deploySays.workingDirectoryMissing('none')
  })
  await t.rejects(
    at('none', { isFirst: true }),
    { message: deploySays.workingDirectoryMissing('none') },
    'after the files are in place'
  )
  t.strictSame(await at('none', { isBeforeFiles: true, isFirst: true }), { path: target, isPlain: true })
  await t.rejects(at('link', { isBeforeFiles: true, isFirst: true }), {
    message: deploySays.workingDirectoryOutside('link')
  })
})

t.test('the shell must be an executable file or a name in PATH', async t => {
  const directory = t.testdir({ mine: '#!/bin/sh\n', plain: '' })
  chmodSync(join(directory, 'mine'), 0o755)
  chmodSync(join(directory, 'plain'), 0o644)
  const find = async (shell: string | null, path = `relative:${directory}:/bin:/usr/bin`) => {
    const { interpreter } = await findRunner('true', { shell }, { title: 'The script', path })
    return interpreter?.[0] ?? null
  }
  t.equal(await find(null), null)
  t.equal(await find('sh'), null)
  t.match(await find('bash'), /\/bash$/)
  t.equal(await find(join(directory, 'mine')), join(directory, 'mine'))
  await t.rejects(find('bash', directory), {
    message: matching(deploySays.didNotRun('The script'), deploySays.shellNotInPath('bash'))
  })
  await t.rejects(find('/no/such/shell'), {
    message: deploySays.shellNotExecutable('/no/such/shell')
  })
  await t.rejects(find(join(directory, 'plain')), {
    message: deploySays.shellNotExecutable(join(directory, 'plain'))
  })
  await t.rejects(find(directory), { message: deploySays.shellNotExecutable(directory) })
})

t.test('the first line of a script names its interpreter', async t => {
  const path = '/usr/local/bin:/usr/bin:/bin'
  const sh = null
  const bash = ['/bin/bash', '-c']
  const table: Array<[script: string, shell: string | null, interpreter: string[] | null | RegExp, notes: RegExp[]]> = [
    ['echo', null, sh, []],
    ['# no\n#!/bin/bash', null, sh, []],
    ['#!/bin/bash\necho', null, bash, []],
    ['#! /bin/bash -eu\r\necho\r\n', null, ['/bin/bash', '-eu', '-c'], [/line ends/]],
    ['\ufeff#!/bin/bash\necho', null, bash, [/byte order mark/]],
    ['#!/usr/bin/env bash\n', null, /bash -c$/, []],
    ['#!/usr/bin/env -S bash -e\n', null, /bash -e -c$/, []],
    ['#!/usr/bin/env -i bash\n', null, sh, [/"\/usr\/bin\/env".*as text/]],
    ['#!/usr/bin/env node\n', null, /node -e$/, []],
    ['#!/usr/bin/awk -f\n', null, sh, [/"\/usr\/bin\/awk".*runs with sh/]],
    ['#!/no/such/bash\n', null, sh, [/not on this server/]],
    ['#!/bin/bash\n', 'sh', sh, [/scriptShell is "sh"/]],
    ['#!/bin/sh\n', 'bash', /bash -c$/, [/scriptShell is "bash"/]],
    ['#!/usr/bin/env bash\n', 'bash', /bash -c$/, []],
    ['#!\necho', null, sh, []]
  ]
  for (const [script, shell, interpreter, notes] of table) {
    const found = await findRunner(
      script,
      { shell },
      { title: 'The script', path: `${path}:${dirname(process.execPath)}` }
    )
    if (interpreter instanceof RegExp) t.match(found.interpreter?.join(' '), interpreter, script)
    else t.strictSame(found.interpreter, interpreter, script)
    t.equal(found.notes.length, notes.length, script)
    t.match(found.notes, notes, script)
  }
})
