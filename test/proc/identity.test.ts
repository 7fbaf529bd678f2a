import t from 'tap'
import { execFileSync, spawnSync } from 'node:child_process'
import { findIdentity, maySwitchUser, parseUmask, variablesOf, withRights } from '../../lib/proc/identity.js'

const isRoot = maySwitchUser()
const asRoot = isRoot ? {} : { skip: 'only root on Linux may take on the rights of another user' }

t.test('a user is found by name', asRoot, async t => {
  t.strictSame(await findIdentity('nobody'), { name: 'nobody', uid: 65534, gid: 65534, home: '/nonexistent', shell: '/usr/sbin/nologin' })
})

t.test('what cannot be a user of a project is refused, with the reason', asRoot, async t => {
  const cases: Array<[name: string, why: RegExp]> = [
    ['root', /rights of root/],
    ['no-such-user-here', /does not know/],
    ['', /not the name of a user/],
    ['-s', /not the name of a user/],
    ['nobody:x', /not the name of a user/],
    ['../nobody', /not the name of a user/],
    ['a'.repeat(40), /not the name of a user/],
    ['65534', /not the name of a user/]
  ]
  for (const [name, why] of cases) {
    await t.rejects(findIdentity(name), { kind: 'invalid', field: 'runAs', message: why }, JSON.stringify(name))
  }
})

t.test('a command gets the rights of the user, and cannot gain others', asRoot, async t => {
  const identity = await findIdentity('nobody')
  const facts = (umask: number | null): string[] => {
    const [program = '', ...words] = withRights(['sh', '-c', 'id -u; id -g; id -G; umask; grep -E "NoNewPrivs|CapEff" /proc/self/status; pwd; echo "$1"', 'sh', 'a "word"'], { identity, umask }, '/usr')
    return execFileSync(program, words, { encoding: 'utf8' }).trimEnd().split('\n')
  }
  t.strictSame(facts(0o027), [
    '65534', '65534', '65534', '0027', 'CapEff:\t0000000000000000', 'NoNewPrivs:\t1', '/usr', 'a "word"'
  ])
  t.equal(facts(null)[3], process.umask().toString(8).padStart(4, '0'), 'without a umask it stays')
  const [program = '', ...words] = withRights(['pwd'], { identity, umask: null }, '/root')
  t.match(spawnSync(program, words, { encoding: 'utf8' }), { status: 126, stdout: '' }, 'a directory is entered with the rights of the user')
  t.match(variablesOf(identity), { USER: 'nobody', LOGNAME: 'nobody', HOME: '/nonexistent' })
})

t.test('a umask is three octal digits', async t => {
  t.equal(parseUmask('027'), 0o027)
  t.equal(parseUmask('0022'), 0o022)
  t.equal(parseUmask('777'), 0o777)
  for (const text of ['', '8', '27', '0x1b', '1022', '02222', '02 2', '-22', '088']) {
    t.throws(() => parseUmask(text), /"umask" cannot be/, JSON.stringify(text))
  }
})
