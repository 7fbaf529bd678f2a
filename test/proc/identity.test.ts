import t from 'tap'
import { execFileSync, spawnSync } from 'node:child_process'
import { findIdentity, maySwitchUser, parseUmask, variablesOf, withRights } from '../../lib/proc/identity.js'

const isRoot = maySwitchUser()
const asRoot = isRoot ? {} : { skip: 'only root on Linux can switch to another user' }

t.test('finds a user by name', asRoot, async t => {
  t.strictSame(await findIdentity('nobody'), {
    name: 'nobody',
    uid: 65534,
    gid: 65534,
    home: '/nonexistent',
    shell: '/usr/sbin/nologin'
  })
})

t.test('refuses an unsuitable user, with the reason', asRoot, async t => {
  const cases: Array<[name: string, why: RegExp]> = [
    ['root', /rights of root/],
    ['no-such-user-here', /no such user/],
    ['', /not a valid user name/],
    ['-s', /not a valid user name/],
    ['nobody:x', /not a valid user name/],
    ['../nobody', /not a valid user name/],
    ['a'.repeat(40), /not a valid user name/],
    ['65534', /not a valid user name/]
  ]
  for (const [name, why] of cases) {
    await t.rejects(findIdentity(name), { kind: 'invalid', field: 'runAs', message: why }, JSON.stringify(name))
  }
})

t.test('a command gets the rights of the user, and cannot gain others', asRoot, async t => {
  const identity = await findIdentity('nobody')
  const facts = (umask: number | null): string[] => {
    const [program = '', ...words] = withRights(
      [
        'sh',
        '-c',
        'id -u; id -g; id -G; umask; grep -E "NoNewPrivs|CapEff" /proc/self/status; pwd; echo "$1"',
        'sh',
        'a "word"'
      ],
      { identity, umask },
      '/usr'
    )
    return execFileSync(program, words, { encoding: 'utf8' }).trimEnd().split('\n')
  }
  t.strictSame(facts(0o027), [
    '65534',
    '65534',
    '65534',
    '0027',
    'CapEff:\t0000000000000000',
    'NoNewPrivs:\t1',
    '/usr',
    'a "word"'
  ])
  t.equal(facts(null)[3], process.umask().toString(8).padStart(4, '0'), 'without a umask it is unchanged')
  const [program = '', ...words] = withRights(['pwd'], { identity, umask: null }, '/root')
  t.match(
    spawnSync(program, words, { encoding: 'utf8' }),
    { status: 126, stdout: '' },
    'a directory is entered with the rights of the user'
  )
  t.match(variablesOf(identity), { USER: 'nobody', LOGNAME: 'nobody', HOME: '/nonexistent' })
})

t.test('parses a umask of three octal digits', async t => {
  t.equal(parseUmask('027'), 0o027)
  t.equal(parseUmask('0022'), 0o022)
  t.equal(parseUmask('777'), 0o777)
  for (const text of ['', '8', '27', '0x1b', '1022', '02222', '02 2', '-22', '088']) {
    t.throws(() => parseUmask(text), /"umask" cannot be/, JSON.stringify(text))
  }
})
