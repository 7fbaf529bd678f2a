import { spawn } from 'node:child_process'
import { inheritedEnvironment } from '../proc/environment.js'
import type { Host } from './host.js'

/** The command line of a program that opens an address. */
interface Opener {
  program: string
  words: string[]
}

/** Returns the command that opens an address in the user's browser, or null if there is no browser or no display. */
export function openerFor(address: string, platform: NodeJS.Platform, env: Host['env']): Opener | null {
  if (platform === 'darwin') return { program: 'open', words: [address] }
  if (platform === 'win32') return { program: 'rundll32', words: ['url.dll,FileProtocolHandler', address] }
  const hasScreen = Boolean(env['DISPLAY'] || env['WAYLAND_DISPLAY'])
  return hasScreen ? { program: 'xdg-open', words: [address] } : null
}

/** Starts the user's browser without waiting for it. Returns whether a browser started. */
export async function openBrowser(address: string, env: Host['env']): Promise<boolean> {
  const opener = openerFor(address, process.platform, env)
  if (opener === null) return false
  const options = { env: inheritedEnvironment(env), stdio: 'ignore', detached: true } as const
  const child = spawn(opener.program, opener.words, options)
  return await new Promise(resolve => {
    child.once('error', () => resolve(false))
    child.once('spawn', () => {
      child.unref()
      resolve(true)
    })
  })
}
