import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { readVersion } from '../base/config/version.js'
import { Refusal } from '../base/errors.js'
import { parseHost } from '../http/core/headers.js'
import type { ArchiveSums } from '../model/health.js'
import { type Headers, hasTag } from '../http/core/reply.js'
import { attachment, fileReply } from '../http/static/file.js'
import type { ApiRequest, Handler } from './route.js'
import type { ApiServices } from './services.js'

/*
 * What a machine needs to get svc from its own server. Everybody may have it: it contains only the open program. The
 * archives lie beside the program (test/release/bundle.ts writes them), and the script contains their checksums.
 */

/** What `install.sh` installs: the client alone, or a complete svc without its panel, for the nodes of a fleet. */
type Edition = keyof ArchiveSums

const files: Record<Edition, string> = {
  client: fileURLToPath(new URL('../../client.tgz', import.meta.url)),
  agent: fileURLToPath(new URL('../../agent.tgz', import.meta.url))
}
const known = new Map<string, { version: string; sum: string }>()

async function sumOf(path: string): Promise<string | null> {
  const found = await stat(path).catch(() => null)
  if (found === null) return null
  const version = `${found.mtimeMs} ${found.size}`
  const before = known.get(path)
  if (before?.version === version) return before.sum
  const sum = createHash('sha256')
    .update(await readFile(path))
    .digest('hex')
  known.set(path, { version, sum })
  return sum
}

/** Returns the checksums of the archives that this server hands out. */
export async function archiveSums(): Promise<ArchiveSums> {
  const [client, agent] = await Promise.all([sumOf(files.client), sumOf(files.agent)])
  return { client, agent }
}

/** Returns the address of this server, as its caller reached it if no public one is configured. */
export function addressOf(
  { isSecure, headers: { host = '' } }: Pick<ApiRequest, 'isSecure' | 'headers'>,
  { publicUrl, base }: Pick<ApiServices, 'publicUrl' | 'base'>
): string {
  return publicUrl ?? `${isSecure ? 'https' : 'http'}://${parseHost(host)?.name ? host.trim() : 'localhost'}${base}`
}

/** A later version is under the same address, so a copy is checked each time; the answer is mostly a 304. */
const checked: Headers = { 'cache-control': 'no-cache' }

/** Handlers of the archives and of the script that installs them. */
export function clientHandlers(services: Pick<ApiServices, 'publicUrl' | 'base'>) {
  const archive = (edition: Edition) => (): ReturnType<typeof fileReply> => {
    const name = `svc-${edition}-${readVersion()}.tgz`
    const headers = { ...checked, 'content-type': 'application/gzip', 'content-disposition': attachment(name) }
    return fileReply({ file: files[edition], headers })
  }
  return {
    client: archive('client'),
    agent: archive('agent'),

    script: async request => {
      const sums = await archiveSums()
      if (sums.client === null) {
        throw new Refusal(
          'not_found',
          'not_found',
          'This installation has no archive of the client: it is not complete'
        )
      }
      const text = installScript(addressOf(request, services), sums)
      const etag = `"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`
      const headers = { ...checked, 'content-type': 'text/plain; charset=utf-8', etag }
      if (hasTag(request.headers, etag)) return { kind: 'empty', status: 304, headers }
      return { kind: 'bytes', status: 200, body: Buffer.from(text), headers }
    }
  } satisfies Record<string, Handler>
}

/** The oldest Node.js that svc runs on. */
const leastNode = 18

/**
 * Returns the script. It needs a shell and Node, which svc needs anyway, and nothing else; if there is curl, it downloads,
 * because it knows the proxy of the machine. The values reach it as JSON inside of quoted text, so that no address can
 * become a command.
 */
function installScript(address: string, sums: ArchiveSums): string {
  const values = JSON.stringify({ address, sums, version: readVersion(), leastNode })
  return `#!/bin/sh
# Installs the client of svc for the user that runs this script, without root:
#
#   curl -fsSL ${address}/install.sh | sh
#   curl -fsSL ${address}/install.sh | sh -s agent    (for "svc agent" on a node of a fleet)
#
# It goes to ~/.local/share/svc, or to SVC_INSTALL_DIR, with a link in ~/.local/bin. Run it again to update it.

# All is in a function that the last line calls: a download that was cut runs nothing.
main() {
  set -eu
  if ! command -v node >/dev/null 2>&1; then
    echo 'svc was not installed: it needs Node.js ${leastNode} or newer, and there is no "node" in PATH' >&2
    exit 1
  fi
  node - "$@" <<'PROGRAM'
const values = ${values}
${installer}PROGRAM
}

main "$@"
`
}

/** The program in the script, which Node reads from its standard input. */
const installer = String.raw`const { execFileSync } = require('child_process')
const { createHash } = require('crypto')
const fs = require('fs')
const path = require('path')
const { gunzipSync } = require('zlib')
const { env } = process

const refuse = why => {
  console.error('svc was not installed: ' + why)
  process.exit(1)
}

/** The name of the package in a directory: svc-client or svc-agent; undefined: another one, or none. */
function installedIn(directory) {
  try {
    const { name } = JSON.parse(fs.readFileSync(path.join(directory, 'package.json'), 'utf8'))
    return /^svc-(client|agent)$/.test(name) ? name : undefined
  } catch {
    return undefined
  }
}

function isEmpty(directory) {
  try {
    return fs.readdirSync(directory).length === 0
  } catch (error) {
    return error.code === 'ENOENT'
  }
}

/** Whether the link may be replaced: it does not exist, leads nowhere, or leads to an installation of this script. */
function isFree(link) {
  try {
    const target = path.resolve(path.dirname(link), fs.readlinkSync(link))
    return !fs.existsSync(target) || installedIn(path.dirname(path.dirname(target))) !== undefined
  } catch (error) {
    return error.code === 'ENOENT'
  }
}

async function download(url) {
  try {
    return execFileSync('curl', ['-fsSL', url], { maxBuffer: 64 * 1024 * 1024, stdio: ['ignore', 'pipe', 'inherit'] })
  } catch (error) {
    if (error.code !== 'ENOENT') refuse('cannot download ' + url)
  }
  const answer = await fetch(url).catch(error => refuse('cannot download ' + url + ': ' + (error.cause || error).message))
  if (!answer.ok) refuse('cannot download ' + url + ': status ' + answer.status)
  return Buffer.from(await answer.arrayBuffer())
}

/** Unpacks a tar archive (ustar) of files, without its first directory. */
function unpack(bytes, directory) {
  const text = (from, length) => bytes.toString('utf8', from, from + length).split('\0')[0]
  for (let at = 0; bytes[at]; ) {
    const name = [text(at + 345, 155), text(at, 100)].filter(Boolean).join('/')
    const size = parseInt(text(at + 124, 12), 8)
    const file = path.join(directory, name.slice(name.indexOf('/') + 1))
    fs.mkdirSync(path.dirname(file), { recursive: true })
    fs.writeFileSync(file, bytes.subarray(at + 512, at + 512 + size))
    fs.chmodSync(file, parseInt(text(at + 100, 8), 8))
    at += 512 + Math.ceil(size / 512) * 512
  }
}

async function install() {
  const { address, sums, version, leastNode } = values
  const words = process.argv.slice(2)
  if (words.some(word => word !== 'agent')) refuse('unknown argument "' + words.join(' ') + '": use agent, or nothing')
  if (parseInt(process.versions.node, 10) < leastNode)
    refuse('it needs Node.js ' + leastNode + ' or newer, and this is ' + process.version)
  const home = env.HOME
  if (!home) refuse('HOME is not set')
  const directory = path.resolve(env.SVC_INSTALL_DIR || path.join(home, '.local/share/svc'))
  const bin = path.join(home, '.local/bin')
  const link = path.join(bin, 'svc')
  const before = installedIn(directory)
  if (before === undefined && !isEmpty(directory))
    refuse('"' + directory + '" contains something else. Set SVC_INSTALL_DIR to another directory')
  if (!isFree(link)) refuse('"' + link + '" is another program. Remove it first')

  // Who has the agent keeps it.
  const edition = words.length > 0 || before === 'svc-agent' ? 'agent' : 'client'
  if (sums[edition] === null) refuse('the server has no archive of the ' + edition)
  const url = address + '/' + edition + '.tgz'
  const bytes = await download(url)
  const sum = createHash('sha256').update(bytes).digest('hex')
  if (sum !== sums[edition])
    refuse(url + ' is not the expected archive: its SHA-256 is ' + sum + ' instead of ' + sums[edition])

  const next = directory + '.new'
  const old = directory + '.old'
  const clear = () => [next, old].forEach(each => fs.rmSync(each, { recursive: true, force: true }))
  clear()
  unpack(gunzipSync(bytes), next)
  if (fs.existsSync(directory)) fs.renameSync(directory, old)
  fs.renameSync(next, directory)
  clear()
  fs.mkdirSync(bin, { recursive: true })
  fs.rmSync(link, { force: true })
  fs.symlinkSync(path.join(directory, 'bin/svc.js'), link)

  console.log('svc ' + version + ' (' + edition + ') is installed: ' + link)
  if (!(env.PATH || '').split(':').includes(bin))
    console.log('Add its directory to PATH, also in the profile of your shell: export PATH="$HOME/.local/bin:$PATH"')
  const shown = /^[\w.:/-]+$/.test(address) ? address : "'" + address + "'"
  console.log(edition === 'client' ? 'Next: svc login --server ' + shown : 'Next: the "svc agent" command of "svc fleet enroll"')
}

install().catch(error => refuse(error.message))
`
