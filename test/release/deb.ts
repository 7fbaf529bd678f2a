import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { renderUnit } from '../../lib/cli/commands/systemd.js'
import { top } from './dependencies.js'
import type { TarEntry } from './tar.js'

/*
 * The package for Debian and Ubuntu: deb(5), and the Debian Policy Manual, whose sections are named below. `dpkg-deb`
 * writes it; what it is given is the same each time: the owner is root, and the times are those of the commit.
 */

interface DebOptions {
  version: string
  madeAtSeconds: number
  /** Versions of Node.js, as `engines` has them. */
  node: string
  /** The files of the installation, by their paths in its archive. No binary, so that the package fits every machine. */
  entries: readonly TarEntry[]
}

/** Why a package cannot be built on this machine; false if it can. */
export function cannotBuildDeb(): string | false {
  const { error } = spawnSync('dpkg-deb', ['--version'])
  return error === undefined ? false : 'dpkg-deb is not installed (Debian package "dpkg")'
}

/** Debian's revision of a version of svc. */
const revision = 1
const maintainer = 'svc maintainers <svc@localhost>'
/** The place of the program. svc compiles node-pty there if an administrator wants a terminal: not below /usr/share. */
const place = 'usr/lib/svc'
const documents = 'usr/share/doc/svc'
/** /lib is a link to /usr/lib, and packages must not contain paths below a link (§10.1). */
const unitPath = 'usr/lib/systemd/system/svc.service'

export const debName = (version: string): string => `svc_${version}-${revision}_all.deb`

/** Returns the package. It contains no `conffiles`: svc keeps its settings in the data directory. */
export function makeDeb(options: DebOptions): Buffer {
  const root = mkdtempSync(join(tmpdir(), 'svc-deb-'))
  try {
    const files = filesOf(options)
    const control = controlOf(options, files)
    for (const { path, content, isExecutable } of [...files, ...control]) {
      const file = join(root, path)
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, content)
      chmodSync(file, isExecutable ? 0o755 : 0o644)
    }
    mkdirSync(join(root, 'usr/bin'), { recursive: true })
    execFileSync('ln', ['-s', '../lib/svc/bin/svc.js', join(root, 'usr/bin/svc')])
    for (const entry of readdirSync(root, { recursive: true, withFileTypes: true }))
      if (entry.isDirectory()) chmodSync(join(entry.parentPath ?? entry.path, entry.name), 0o755)
    chmodSync(root, 0o755)
    return build(root, options.madeAtSeconds)
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

/** dpkg-deb sorts the files, and lowers their times to SOURCE_DATE_EPOCH. With xz it would take ten times as long. */
function build(root: string, madeAtSeconds: number): Buffer {
  const file = `${root}.deb`
  const env = { PATH: process.env['PATH'], SOURCE_DATE_EPOCH: String(madeAtSeconds) }
  try {
    execFileSync('dpkg-deb', ['--root-owner-group', '-Zgzip', '--build', root, file], { env, stdio: 'pipe' })
    return readFileSync(file)
  } finally {
    rmSync(file, { force: true })
  }
}

const text = (path: string, content: string): TarEntry => ({
  path,
  content: Buffer.from(content),
  isExecutable: false
})
const zipped = (path: string, content: Buffer | string): TarEntry => ({
  path: `${path}.gz`,
  content: gzipSync(content, { level: 9 }),
  isExecutable: false
})

/** Returns the files by their places on the machine. */
function filesOf(options: DebOptions): TarEntry[] {
  return [
    ...options.entries.flatMap(entry => placed(entry)),
    text(unitPath, unit()),
    text(`${documents}/copyright`, copyright(options)),
    zipped(`${documents}/changelog.Debian`, changelog(options))
  ]
}

function placed(entry: TarEntry): TarEntry[] {
  const { path, content } = entry
  // §12.1, §12.3, §12.7. The licence is in the file `copyright`.
  if (path === 'LICENSE') return []
  if (path === 'CHANGELOG.md') return [zipped(`${documents}/changelog`, content)]
  if (path.startsWith('man/')) return [zipped(`usr/share/man/man1/${path.slice('man/'.length)}`, content)]
  if (path === 'README.md' || path.startsWith('docs/')) return [{ ...entry, path: `${documents}/${path}` }]
  return [{ ...entry, path: `${place}/${path}` }]
}

/** Returns the unit that `svc systemd` prints on a machine with the package. */
function unit(): string {
  return renderUnit({
    user: 'svc',
    isMultiUser: false,
    home: '/var/lib/svc',
    command: ['/usr/bin/node', `/${place}/bin/svc.js`, 'serve'],
    paths: [],
    reads: [],
    port: 5431,
    socket: undefined,
    publicUrl: null
  })
}

/** Returns what dpkg itself reads: §5.3, and deb-md5sums(5). */
function controlOf({ version, node }: DebOptions, files: readonly TarEntry[]): TarEntry[] {
  const least = /^>=(\d+)$/.exec(node)?.[1]
  if (least === undefined) throw new Error(`engines.node is "${node}": expected >=<major>`)
  const kilobytes = files.reduce((sum, { content }) => sum + Math.ceil(content.length / 1024), 0)
  const control = `Package: svc
Version: ${version}-${revision}
Architecture: all
Maintainer: ${maintainer}
Installed-Size: ${kilobytes}
Depends: nodejs (>= ${least}), init-system-helpers, passwd
Recommends: ca-certificates
Suggests: git, nginx, npm, g++, make, python3
Conflicts: daemontools
Section: admin
Priority: optional
Description: self-hosted deployment service
 svc deploys build output to this machine, or to many machines through agents:
 a REST API, live output and a web panel in one process. "svc push" packs the
 files where the build is made, uploads them, and shows the deployment.
 .
 The terminal of the panel needs node-pty, which this package contains as
 source: "npm run install" in /${place}/node_modules/node-pty compiles it.
`
  const script = (name: string): TarEntry => ({
    path: `DEBIAN/${name}`,
    content: readFileSync(join(top, 'test/release/debian', name)),
    isExecutable: true
  })
  const sorted = [...files].sort((a, b) => (a.path < b.path ? -1 : 1))
  const sums = sorted.map(({ path, content }) => `${createHash('md5').update(content).digest('hex')}  ${path}\n`)
  return [
    text('DEBIAN/control', control),
    text('DEBIAN/md5sums', sums.join('')),
    ...['postinst', 'prerm', 'postrm'].map(script)
  ]
}

/** §12.5, in the format of DEP-5. */
function copyright({ entries }: DebOptions): string {
  const licence = entries.find(({ path }) => path === 'LICENSE')?.content.toString() ?? ''
  const holder = /^Copyright .*$/m.exec(licence)?.[0].replace(/^Copyright (\(c\) )?/, '') ?? 'the authors of svc'
  const body = licence
    .slice(licence.indexOf('Permission is hereby'))
    .trim()
    .split('\n')
    .map(line => ` ${line === '' ? '.' : line}`)
    .join('\n')
  const packages = [...new Set(entries.flatMap(({ path }) => /^node_modules\/([^/]+)\//.exec(path)?.[1] ?? []))].sort()
  return `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: svc

Files: *
Copyright: ${holder}
License: Expat

${packages.map(name => `Files: ${place}/node_modules/${name}/*\nCopyright: see /${place}/node_modules/${name}/LICENSE\nLicense: Expat\n`).join('\n')}
License: Expat
${body}
`
}

/** §4.4. What changed for users is in the changelog of svc. */
function changelog({ version, madeAtSeconds }: DebOptions): string {
  const date = new Date(madeAtSeconds * 1000).toUTCString().replace('GMT', '+0000')
  return `svc (${version}-${revision}) unstable; urgency=medium

  * svc ${version}. See /${documents}/changelog.gz.

 -- ${maintainer}  ${date}
`
}
