/* ssh-keygen and minisign, which make the vectors of signatures. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { signingNamespace } from '../../lib/model/statement.js'

/** Returns why a program cannot be used, as tap prints it with a skipped test; false: it can. */
export function missing(program: 'ssh-keygen' | 'minisign'): string | false {
  const found = spawnSync('which', [program]).status === 0
  return found
    ? false
    : `${program} is not installed (apt-get install ${program === 'minisign' ? program : 'openssh-client'})`
}

/** Makes a key of OpenSSH in a directory. Returns the paths of its files. */
export function sshKey(directory: string, name: string, { password = '', type = 'ed25519' } = {}) {
  mkdirSync(directory, { recursive: true })
  const path = join(directory, name)
  execFileSync('ssh-keygen', ['-q', '-t', type, '-N', password, '-C', `${name}@laptop`, '-f', path])
  return { path, publicPath: `${path}.pub`, publicText: readFileSync(`${path}.pub`, 'utf8') }
}

/** Returns the fingerprint that ssh-keygen shows. */
export function fingerprintBySsh(path: string): string {
  return execFileSync('ssh-keygen', ['-l', '-f', path], { encoding: 'utf8' }).split(' ')[1] as string
}

/** Signs with ssh-keygen. */
export function signBySsh(path: string, message: Uint8Array, namespace: string = signingNamespace): string {
  return execFileSync('ssh-keygen', ['-q', '-Y', 'sign', '-n', namespace, '-f', path], {
    input: message,
    encoding: 'utf8',
    stdio: ['pipe', 'pipe', 'ignore']
  })
}

/** Whether ssh-keygen accepts a signature of a key. */
export function isAcceptedBySsh(
  directory: string,
  publicText: string,
  signed: { message: Uint8Array; signature: string }
) {
  const [allowed, signature] = [join(directory, 'allowed'), join(directory, 'sig')]
  writeFileSync(allowed, `ana ${publicText}`)
  writeFileSync(signature, signed.signature)
  const args = ['-Y', 'verify', '-f', allowed, '-I', 'ana', '-n', signingNamespace, '-s', signature]
  return spawnSync('ssh-keygen', args, { input: signed.message }).status === 0
}

/** Makes a key of minisign without a password. */
export function minisignKey(directory: string, name: string) {
  mkdirSync(directory, { recursive: true })
  const [path, publicPath] = [join(directory, name), join(directory, `${name}.pub`)]
  execFileSync('minisign', ['-G', '-W', '-p', publicPath, '-s', path], { stdio: 'ignore' })
  return { path, publicPath, publicText: readFileSync(publicPath, 'utf8'), privateText: readFileSync(path, 'utf8') }
}

/** Signs with minisign; `legacy`: the form that signs the file itself. */
export function signByMinisign(directory: string, path: string, message: Uint8Array, { legacy = false } = {}): string {
  const file = join(directory, 'message')
  writeFileSync(file, message)
  rmSync(`${file}.minisig`, { force: true })
  execFileSync('minisign', ['-S', ...(legacy ? ['-l'] : []), '-s', path, '-m', file], { stdio: 'ignore' })
  return readFileSync(`${file}.minisig`, 'utf8')
}

/** Whether minisign accepts a signature of a key. */
export function isAcceptedByMinisign(
  directory: string,
  publicPath: string,
  signed: { message: Uint8Array; signature: string }
): boolean {
  const file = join(directory, 'signed')
  writeFileSync(file, signed.message)
  writeFileSync(`${file}.minisig`, signed.signature)
  return spawnSync('minisign', ['-V', '-p', publicPath, '-m', file]).status === 0
}
