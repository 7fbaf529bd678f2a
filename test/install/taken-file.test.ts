import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, constants, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openDescriptor } from '../../lib/install/helper-answers.js'
import { takeOver } from '../../lib/install/taken-file.js'
import { runHelper } from '../../lib/proc/helper.js'
import { findIdentity, maySwitchUser } from '../../lib/proc/identity.js'
import { openDirectory } from '../support/open-directory.js'
import type { HostileJob } from '../support/hostile-helper.js'

const module = new URL('../support/hostile-helper.js', import.meta.url)
const options = maySwitchUser() ? {} : { skip: 'only root on Linux can switch to another user' }
const pathOnly = 0o10000000

t.test('svc takes over what the process has open for reading in the target, and nothing else', options, async t => {
  const rights = { identity: await findIdentity('nobody'), umask: null }
  const { uid, gid } = rights.identity
  const directory = openDirectory(t)
  const target = join(directory, 'target')
  mkdirSync(target)
  const own = join(target, 'own')
  const secret = join(target, 'of-root')
  const outside = join(directory, 'outside')
  for (const path of [own, secret, outside]) writeFileSync(path, path)
  chmodSync(secret, 0o600)
  chmodSync(outside, 0o644)
  const staging = join(target, '.svc-staging-dep_1')
  mkdirSync(staging)
  writeFileSync(join(staging, 'file'), 'x')
  symlinkSync(outside, join(target, 'link'))
  const pipe = join(target, 'pipe')
  execFileSync('mkfifo', [pipe])
  chmodSync(pipe, 0o666)
  for (const path of [target, own]) chownSync(path, uid, gid)

  const take = (job: HostileJob): Promise<string> =>
    runHelper({ module, rights, job, read: openDescriptor }, async (fd, process) => {
      const file = await takeOver({ target, path: 'asked', fd }, process)
      try {
        return `${file.path} ${file.name} ${file.size} ${await file.handle.readFile('utf8')}`
      } finally {
        await file.handle.close()
      }
    })
  const open = (path: string, flags: number = constants.O_RDONLY, fd?: number): Promise<string> =>
    take({ do: 'open', path, flags, ...(fd === undefined ? {} : { fd }) })

  t.equal(await open(own), `${own} own ${own.length} ${own}`)
  t.equal(await open(own, constants.O_RDWR), `${own} own ${own.length} ${own}`)
  await t.rejects(open(secret, pathOnly), { kind: 'forbidden', code: 'not_readable' }, 'a descriptor without the right')
  await t.rejects(open(own, constants.O_WRONLY), { code: 'not_readable' })
  await t.rejects(open(outside), { code: 'outside_target' })
  await t.rejects(open(outside, pathOnly), { code: 'outside_target' })
  await t.rejects(open(join(target, 'link')), { code: 'outside_target' })
  await t.rejects(open(join(staging, 'file')), { code: 'not_found' })
  await t.rejects(open(pipe, constants.O_RDONLY | constants.O_NONBLOCK), { code: 'not_a_file' })
  await t.rejects(open(target), { code: 'not_a_file' })
  await t.rejects(open(own, constants.O_RDONLY, 3), { code: 'not_a_file' }, 'the connection')
  await t.rejects(open(own, constants.O_RDONLY, 999_999), { code: 'changed_meanwhile' })
  for (const fd of [-1, 1.5, 2 ** 40]) await t.rejects(open(own, constants.O_RDONLY, fd), { code: 'helper_failed' })
})

t.test('a process that is another one by now is not asked', options, async t => {
  const rights = { identity: await findIdentity('nobody'), umask: null }
  const target = openDirectory(t)
  writeFileSync(join(target, 'file'), 'x')
  const job: HostileJob = { do: 'open', path: join(target, 'file'), flags: constants.O_RDONLY }
  await t.rejects(
    runHelper({ module, rights, job, read: openDescriptor }, (fd, { pid }) =>
      takeOver({ target, path: 'file', fd }, { pid, startedAt: '7' })
    ),
    { code: 'changed_meanwhile' }
  )
})
