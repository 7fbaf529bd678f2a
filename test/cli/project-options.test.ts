import t from 'tap'
import {
  policyField,
  projectFields,
  projectOptions,
  withMaskedToken,
  checkUserName,
  createUserWords,
  ensureUser as ensure
} from '../../lib/cli/project-options.js'
import type { ShownProject } from '../../lib/model/project.js'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { maySwitchUser } from '../../lib/core/proc/identity.js'

const project = (id: string, name: string) => ({ id, name })
t.test('only the options that were given become fields', async t => {
  t.same(projectFields({}), {})
  t.same(projectFields({ pre: '', 'post-async': 'true', 'client-scripts': 'default', 'max-disk-mb': 0, pm2: '' }), {
    preDeployScript: '',
    postDeployAsync: true,
    allowClientScripts: null,
    maxDiskMb: null,
    pm2AppName: null
  })
  t.same(projectFields({ 'max-disk-mb': 7, pm2: 'web' }), { maxDiskMb: 7, pm2AppName: 'web' })
})

t.test('each option sets one field', async t => {
  for (const flag of Object.keys(projectOptions)) {
    t.equal(Object.keys(projectFields({ [flag]: 'true' })).length, 1, flag)
  }
})

t.test('a token that the caller may see is masked; a hidden one stays null', async t => {
  const shown = project('proj_a', 'one') as unknown as ShownProject
  t.equal(withMaskedToken({ ...shown, token: 'the-token-of-a-project' }).token, '****ject')
  t.equal(withMaskedToken({ ...shown, token: null }).token, null)
})

t.test('words set keys of a policy: texts, JSON, and an empty text for the default', async t => {
  t.same(policyField([]), {})
  t.same(policyField(['drift=refuse', 'confirm={"seconds":90}', 'gate=', 'onPostFailure=null']), {
    policy: { drift: 'refuse', confirm: { seconds: 90 }, gate: null, onPostFailure: null }
  })
  t.same(policyField(['{"gate":{"after":[]},"drift":"off"}', 'drift=warn']), {
    policy: { gate: { after: [] }, drift: 'warn' }
  })
  for (const word of ['drift', '=refuse', '["drift"]', '', 'confirm={"seconds":9,"seconds":90}'])
    t.throws(() => policyField([word]), { code: 'usage', message: /--policy/ }, word)
})

const ensureUser = (name: string, server: string) => ensure(name, { server, env: { ...process.env } })

t.test('refuses names that are no system user, before anything is run', async t => {
  for (const name of ['shop', '_svc', 'web-1', 'a'.repeat(32)]) t.doesNotThrow(() => checkUserName(name), name)
  for (const name of ['', 'root', '-x', '--root=/x', 'Shop', 'a b', 'a:b', '../a', '1a', 'a'.repeat(33)]) {
    t.throws(() => checkUserName(name), /--user is/, name)
  }
  t.same(createUserWords('shop').slice(0, 2), ['useradd', '--system'])
})

t.test('prints the command if the server is elsewhere', async t => {
  for (const server of ['https://deploy.example.org', 'http://192.0.2.7:5431/tools']) {
    t.match(await ensureUser('shop', server), /as root on the server: useradd --system .* shop$/, server)
  }
})

const noRoot = maySwitchUser() ? false : 'needs root'

t.test('runs useradd once, and only for a user that is absent', { skip: noRoot }, async t => {
  const name = `svc-t${process.pid}`
  // A stand-in notes its words, so that the test leaves no user on the machine.
  const directory = t.testdir({
    useradd: '#!/bin/sh\necho "$@" >> "$0.words"\n[ ! -e "$0.full" ] || { echo "disk\nfull" >&2; exit 1; }\n'
  })
  const program = join(directory, 'useradd')
  chmodSync(program, 0o755)
  const path = process.env['PATH']
  process.env['PATH'] = `${directory}:${path}`
  t.teardown(() => (process.env['PATH'] = path))
  for (const server of ['http://127.0.0.1:5431', 'http://[::1]:5431', 'http://localhost:5431/tools']) {
    t.equal(await ensureUser('daemon', server), null, server)
  }
  await ensureUser(name, 'https://deploy.example.org')
  t.notOk(existsSync(`${program}.words`), 'neither for a user that exists nor for another machine')
  t.equal(await ensureUser(name, 'http://127.0.0.1:5431'), `Created the system user "${name}"`)
  t.equal(readFileSync(`${program}.words`, 'utf8'), `${createUserWords(name).slice(1).join(' ')}\n`)
  writeFileSync(`${program}.full`, '')
  await t.rejects(ensureUser(name, 'http://127.0.0.1:5431'), {
    message: /cannot create the user "svc-t\d+": disk.*full/
  })
})
