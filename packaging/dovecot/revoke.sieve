# A message was moved out of Junk: revoke it in the user's name, unless it was thrown away.
require ["vnd.dovecot.pipe", "copy", "imapsieve", "environment", "variables"];

if environment :is "imap.mailbox" [ "Trash", "Deleted Messages" ] { stop; }
if environment :matches "imap.user" "*" { set "user" "${1}"; }
pipe :copy :try "bruit-revoke" [ "${user}" ];
