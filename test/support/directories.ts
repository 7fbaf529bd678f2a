/*
 * tap removes the directory of a test before its teardowns run, and so while a server still works in it: the removal fails
 * now and then, because a file appears meanwhile. So the directories stay, as with suite.ts. The next run replaces them.
 */
process.env['TAP_SAVE_FIXTURE'] = '1'
