import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { maySwitchUser } from '../../lib/core/proc/identity.js'
import { checkUserName, createUserWords, ensureUser as ensure } from '../../lib/cli/system-user.js'

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
