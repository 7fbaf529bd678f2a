/*
 * The rules of a project's script settings: shell, working directory, time limit. Whether the shell and the directory
 * exist is only checked when a script begins.
 */
import { isAbsolute } from 'node:path'
import { unprintableIn } from '../base/text.js'

/** Maximum time limit of a script in seconds: a day, like the setting `script_timeout`. */
export const maxScriptTimeoutSeconds = 86_400
/** Maximum length of a path in characters. */
const maxLength = 4096

/** Returns why this cannot be a project's shell, as the end of a sentence; null if it can. */
export function scriptShellFault(shell: string): string | null {
  if (shell.length > maxLength) return `is longer than ${maxLength} characters`
  if (unprintableIn(shell) !== null) return 'contains an invisible character'
  if (shell === 'sh' || shell === 'bash' || (isAbsolute(shell) && !/[\\/]$/.test(shell))) return null
  return 'is neither "sh", "bash" nor the absolute path of a program'
}

/** Returns why this cannot be a project's working directory, as the end of a sentence; null if it can. */
export function scriptDirectoryFault(directory: string): string | null {
  if (directory.length > maxLength) return `is longer than ${maxLength} characters`
  if (unprintableIn(directory) !== null) return 'contains an invisible character'
  if (isAbsolute(directory) || /^[\\/]/.test(directory)) return 'is not relative to the target'
  if (directory.split(/[\\/]/).includes('..')) return 'leaves the target'
  return null
}

/** Returns a working directory as it is stored: without `.` and doubled separators; null for the target itself. */
export function normalDirectory(directory: string): string | null {
  return (
    directory
      .split(/[\\/]/)
      .filter(name => name !== '' && name !== '.')
      .join('/') || null
  )
}
