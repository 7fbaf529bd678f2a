/*
 * The rules of a project's variables: what a name and a value may be. Scripts get them in their environment.
 *
 * Names are those that every shell can use. Names that make a program load code, and svc's own, are refused for the
 * administrator as well: a mistake there breaks every script, and a script can set them itself.
 */
import { folded, isDenied } from './client-env.js'

/** A variable as the API answers it. */
export interface Variable {
  name: string
  /** null: it is a secret, whose value is never shown. */
  value: string | null
  secret: boolean
  /** false: a secret that came with an import, without its value. Scripts do not run before it is set. */
  hasValue: boolean
  updatedAt: string
}

/** A variable as it is stored: the value of a secret is sealed (projects/seal.ts), or empty if it is not set yet. */
export interface StoredVariable extends Omit<Variable, 'value' | 'hasValue'> {
  projectId: string
  value: string
}

/** A variable as it is given. Without a value, one that is stored keeps it. */
export interface GivenVariable {
  name: string
  value: string | null
  /** null: as it is stored, else plain. */
  secret: boolean | null
}

/** A variable as scripts get it. */
export interface OpenedVariable {
  name: string
  value: string
  secret: boolean
}

/** Variables of a project. */
export const maxVariables = 200
/** Characters of a name. */
export const maxVariableNameLength = 200
/** Bytes of a value: Linux gives a program no variable of more than 128 KiB. */
export const maxVariableBytes = 64 * 1024
/** Bytes of all names and values of a project. */
export const maxVariablesBytes = 256 * 1024
/** Characters of a secret. A shorter one cannot be masked: every output would be full of `***`. */
export const minSecretLength = 4

/** Control characters but tab, line feed and carriage return; halves of surrogate pairs. */
const unusable =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/

/** Returns why a variable cannot have this name, as the end of a sentence; null: it can. */
export function variableNameFault(name: string): string | null {
  if (name.length > maxVariableNameLength) return `is longer than ${maxVariableNameLength} characters`
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    return 'is not a variable name: letters, digits and "_" are possible, not starting with a digit'
  }
  if (folded(name).startsWith('SVC_')) return 'begins with "SVC_": svc itself sets these variables'
  return isDenied(name) ? 'can never be set: shells and interpreters load code by it. Set it in the script' : null
}

/** Returns why a variable cannot have this value, as the end of a sentence that never contains it; null: it can. */
export function variableValueFault(value: string, secret: boolean): string | null {
  const found = unusable.exec(value)?.[0]
  if (found !== undefined) return `contains U+${found.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}, which is not possible`
  if (Buffer.byteLength(value) > maxVariableBytes) return `is longer than ${maxVariableBytes / 1024} KiB`
  if (secret && !value.split(/\r?\n/).some(line => line.trim().length >= minSecretLength)) {
    return `is too short for a secret: svc masks secrets of at least ${minSecretLength} characters`
  }
  return null
}
