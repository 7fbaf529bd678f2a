import t from 'tap'
import {
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
  chmodSync,
  chownSync
} from 'node:fs'
import { join } from 'node:path'
import { firstDescriptor } from '../../lib/proc/first-descriptor.js'
import { runHelper } from '../../lib/proc/helper.js'
import { findIdentity, maySwitchUser, type Rights } from '../../lib/proc/identity.js'
import type { Job } from '../support/helper-fixture.js'
import { openDirectory } from '../support/open-directory.js'

const module = new URL('../support/helper-fixture.js', import.meta.url)
const options = maySwitchUser() ? {} : { skip: 'only root on Linux can switch to another user' }

t.test('helper processes', options, async t => {
  const rights: Rights = { identity: await findIdentity('nobody'), umask: 0o027 }
  const ask = <A>(job: Job, more: object = {}) => runHelper<Job, A>({ module, rights, job, ...more })
  const directory = openDirectory(t)
  writeFileSync(join(directory, 'secret'), 'of root')
  chmodSync(join(directory, 'secret'), 0o600)
  const own = join(directory, 'own')
  mkdirSync(own)
  chownSync(own, 65534, 65534)

  t.test('have the rights of the user and nothing of svc', async t => {
    interface Facts {
      uid: number
      gid: number
      groups: number[]
      umask: number
      env: object
      status: string
      fds: number[]
    }
    const facts = await ask<Facts>({ do: 'facts' })
    t.match(facts, { uid: 65534, gid: 65534, groups: [65534], umask: 0o027 })
    t.notOk('SVC_HOME' in facts.env || 'ADMIN_TOKEN' in facts.env)
    t.match(facts.status, /^CapEff:\t0{16}$/m)
    await t.rejects(ask({ do: 'become root' }), { code: 'EPERM' })
  })

  t.test('can open only the files that the user can open', async t => {
    await t.rejects(ask({ do: 'read', path: join(directory, 'secret') }), { code: 'EACCES' })
    await t.rejects(ask({ do: 'signal', pid: process.pid }), { code: 'EPERM' })
    await ask({ do: 'write', path: join(own, 'file') })
    t.match(statSync(join(own, 'file')), { uid: 65534, gid: 65534 })
    t.equal(statSync(join(own, 'file')).mode & 0o777, 0o640, 'the umask of the project applies')
  })

  t.test('can use files that svc has opened', async t => {
    const fd = openSync(join(directory, 'secret'), 'r')
    t.teardown(() => closeSync(fd))
    t.equal(await ask({ do: 'read given' }, { descriptors: [fd] }), 'of root')
    t.equal(firstDescriptor, 4)
  })

  t.test('cannot be traced or inspected by the user, so their files stay private', async t => {
    const fd = openSync(join(directory, 'secret'), 'r')
    t.teardown(() => closeSync(fd))
    const spied = runHelper<Job, { fd: number }, unknown>(
      { module, rights, job: { do: 'open', path: '/etc/passwd' }, descriptors: [fd] },
      async (_answer, pid) => ask({ do: 'read', path: `/proc/${pid}/fd/${firstDescriptor}` })
    )
    await t.rejects(spied, { code: 'EACCES' })
  })

  t.test('open files for svc, which gets the file and not a path', async t => {
    const path = join(own, 'file')
    const fd = await runHelper<Job, { fd: number; ino: number }, number>(
      { module, rights, job: { do: 'open', path } },
      ({ fd }, pid) => openSync(`/proc/${pid}/fd/${fd}`, 'r')
    )
    t.equal(fstatSync(fd).ino, statSync(path).ino)
    t.equal(readFileSync(fd, 'utf8'), 'written')
    closeSync(fd)
  })

  t.test('pass on their refusals', async t => {
    await t.rejects(ask({ do: 'refuse' }), { name: 'Refusal', kind: 'conflict', code: 'no_way', field: 'job' })
  })

  t.test('reject if they die, and are ended by an abort if they hang', async t => {
    await t.rejects(ask({ do: 'exit' }), /ended without an answer \(3\)/)
    const aborter = new AbortController()
    let pid = 0
    const hanging = ask(
      { do: 'hang' },
      {
        signal: aborter.signal,
        onStart: (started: number) => {
          pid = started
          aborter.abort(new Error('enough'))
        }
      }
    )
    await t.rejects(hanging, /enough/)
    t.throws(() => process.kill(pid, 0), { code: 'ESRCH' }, 'it is gone when the call ends')
    await t.rejects(ask({ do: 'facts' }, { signal: AbortSignal.abort(new Error('before')) }), /before/)
  })

  t.test('leave no descriptor open', async t => {
    const before = readdirSync('/proc/self/fd').length
    for (let i = 0; i < 5; i++) await ask({ do: 'facts' })
    t.equal(readdirSync('/proc/self/fd').length, before)
  })

  t.test('do not follow a link with the rights of svc', async t => {
    symlinkSync(join(directory, 'secret'), join(own, 'link'))
    await t.rejects(ask({ do: 'read', path: join(own, 'link') }), { code: 'EACCES' })
    await t.rejects(ask({ do: 'write', path: join(own, 'link') }), { code: 'EACCES' })
  })
})
