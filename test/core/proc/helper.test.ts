import t from 'tap'
import { steadyDescriptors } from '../../support/descriptors.js'
import {
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readlinkSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
  chmodSync,
  chownSync
} from 'node:fs'
import { spawn } from 'node:child_process'
import { getEventListeners, once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { firstDescriptor } from '../../../lib/core/proc/environment.js'
import { runHelper } from '../../../lib/core/proc/helper.js'
import { findIdentity, maySwitchUser, type Rights } from '../../../lib/core/proc/identity.js'
import type { Job } from '../../support/helper-fixture.js'
import type { HostileJob } from '../../support/hostile-helper.js'
import { listeningPorts } from '../../support/listening-ports.js'
import { isRunning } from '../../support/processes.js'
import { openDirectory } from '../../support/open-directory.js'

const module = new URL('../../support/helper-fixture.js', import.meta.url)
const options = maySwitchUser() ? {} : { skip: 'only root on Linux can switch to another user' }

t.test('helper processes', options, async t => {
  const rights: Rights = { identity: await findIdentity('nobody'), umask: 0o027 }
  /** The fixture answers whatever a test asks for. */
  const read = <A>(value: unknown): A => value as A
  const ask = <A>(job: Job, more: object = {}): Promise<A> => runHelper<Job, A>({ module, rights, job, read, ...more })
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
      { module, rights, job: { do: 'open', path: '/etc/passwd' }, descriptors: [fd], read },
      async (_answer, { pid }) => ask({ do: 'read', path: `/proc/${pid}/fd/${firstDescriptor}` })
    )
    await t.rejects(spied, { code: 'EACCES' })
  })

  t.test('open files for svc, which gets the file and not a path', async t => {
    const path = join(own, 'file')
    const fd = await runHelper<Job, { fd: number; ino: number }, number>(
      { module, rights, job: { do: 'open', path }, read },
      ({ fd }, { pid }) => openSync(`/proc/${pid}/fd/${fd}`, 'r')
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
        onStart: (started: { pid: number }) => {
          pid = started.pid
          aborter.abort(new Error('enough'))
        }
      }
    )
    await t.rejects(hanging, /enough/)
    t.throws(() => process.kill(pid, 0), { code: 'ESRCH' }, 'it is gone when the call ends')
    await t.rejects(ask({ do: 'facts' }, { signal: AbortSignal.abort(new Error('before')) }), /before/)
  })

  t.test('leave no descriptor open, and nothing on a signal that lives longer', async t => {
    const { signal } = new AbortController()
    await steadyDescriptors()
    const before = readdirSync('/proc/self/fd').length
    for (let i = 0; i < 5; i++) await ask({ do: 'facts' }, { signal })
    await steadyDescriptors()
    t.equal(readdirSync('/proc/self/fd').length, before)
    t.equal(getEventListeners(signal, 'abort').length, 0)
  })

  t.test('do not follow a link with the rights of svc', async t => {
    symlinkSync(join(directory, 'secret'), join(own, 'link'))
    await t.rejects(ask({ do: 'read', path: join(own, 'link') }), { code: 'EACCES' })
    await t.rejects(ask({ do: 'write', path: join(own, 'link') }), { code: 'EACCES' })
  })
})

t.test('no signal of the user opens the debugger of Node, at any moment of a helper process', options, async t => {
  const rights: Rights = { identity: await findIdentity('nobody'), umask: null }
  const { uid, gid } = rights.identity
  const program = fileURLToPath(new URL('../../support/signalling.js', import.meta.url))
  // The user may not be able to read the program, so its code is passed on.
  const words = ['--input-type=module', '-e', readFileSync(program, 'utf8')]
  const user = spawn(process.execPath, words, { uid, gid, cwd: '/', env: {}, stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => user.kill('SIGKILL'))
  await once(user.stdout, 'data')
  for (let life = 0; life < 12; life++) {
    const signal = life < 9 ? 'SIGUSR1' : 'SIGUSR2'
    let started = 0
    const result = runHelper<Job, unknown, number[]>(
      {
        module,
        rights,
        job: { do: 'facts' },
        read: value => value,
        onStart({ pid }) {
          started = pid
          user.stdin.write(`${pid} ${signal} 1\n`)
        }
      },
      async (_facts, { pid }) => {
        // Some more signals, while it waits for svc.
        await new Promise(resolve => setTimeout(resolve, 20))
        return listeningPorts(pid)
      }
    )
    // Other signals end the process, which the user may do.
    if (signal === 'SIGUSR1') t.strictSame(await result, [], `life ${life}`)
    else await t.rejects(result, /ended without an answer|ESRCH|ENOENT/)
    t.notOk(isRunning(started))
  }
})

t.test('a process that its user has taken over', options, async t => {
  const rights: Rights = { identity: await findIdentity('nobody'), umask: null }
  const hostile = new URL('../../support/hostile-helper.js', import.meta.url)
  const ask = (job: HostileJob, more: object = {}): Promise<string> =>
    runHelper({ module: hostile, rights, job, read: value => String(value), ...more })
  const failed = { kind: 'unavailable', code: 'helper_failed' }
  const text = (sent: string, repeat = 1): Promise<string> => ask({ do: 'text', text: sent, repeat })
  await steadyDescriptors()
  const before = readdirSync('/proc/self/fd').length

  await t.test('answers nothing that svc does not read', async t => {
    t.equal(await text('{"kind":"answer","answer":"x"}'), 'x', 'the stage works')
    for (const sent of [
      '',
      'null',
      '{"kind":"answer"',
      '{"cmd":"NODE_HANDLE","type":"x"}',
      '{"kind":"failed","error":1}'
    ])
      await t.rejects(text(sent), failed, sent)
    await t.rejects(text('[', 3_000_000), failed)
    await t.rejects(text('[{},', 5_000_000), failed, 'more values than memory should be given for')
  })

  await t.test('is ended at a length that svc does not take, and its bytes are not kept', async t => {
    const bytes = Buffer.from([0xff, 0xff, 0xff, 0xff, 1, 2, 3])
    await t.rejects(ask({ do: 'bytes', bytes }), failed)
    const memory = process.memoryUsage().rss
    await t.rejects(ask({ do: 'bytes', bytes: Buffer.alloc(1024 * 1024, 0x7f), repeat: 400 }), failed)
    t.ok(process.memoryUsage().rss - memory < 200 * 1024 * 1024)
  })

  await t.test('cannot make svc wait', async t => {
    await t.rejects(ask({ do: 'close' }), /ended without an answer/)
    await t.rejects(ask({ do: 'signal', signal: 'SIGSTOP' }), { ...failed, message: /stopped/ })
    await t.rejects(ask({ do: 'nothing' }, { limitMs: 300 }), { ...failed, message: /no answer/ })
    await t.rejects(ask({ do: 'bytes', bytes: Buffer.from([0, 0, 0, 9, 1]) }, { limitMs: 300 }), failed)
  })

  await t.test('cannot signal svc, and has no descriptor of it', async t => {
    await t.rejects(ask({ do: 'signal', signal: 'SIGTERM', pid: process.pid }), /ended without an answer \(1\).*EPERM/)
    const links = await runHelper<HostileJob, string, string[]>(
      { module: hostile, rights, job: { do: 'text', text: '{"kind":"answer","answer":"x"}' }, read: String },
      (_answer, { pid }) => [0, 1, 2].map(fd => readlinkSync(`/proc/${pid}/fd/${fd}`))
    )
    const [input, output, errors] = links
    t.strictSame([input, output], ['/dev/null', '/dev/null'])
    t.match(errors, /^(socket|pipe):/)
  })

  await steadyDescriptors()
  t.equal(readdirSync('/proc/self/fd').length, before, 'no descriptor is left open')
})
