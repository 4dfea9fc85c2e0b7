# Prints what the installed Razor client computes, without using the network.
#
# Arguments: the ep4 parameters to sign with. Standard input: file names, one per line. Every file is one message, which
# is used unchanged. For each file, standard output receives:
#
#   file NAME
#   part INDEX SHA1            of each part's bytes, in order
#   sign EP4                   followed by the signatures, in the client's order:
#   e4 INDEX SIGNATURE
#   e8 INDEX SIGNATURE
#   died REASON                instead of signatures, if the client died
use strict;
use Digest::SHA qw(sha1_hex);
use Razor2::Client::Agent;

binmode STDIN;
binmode STDOUT;

while (my $name = <STDIN>) {
    chomp $name;
    print "file $name\n";
    my $message = contents($name);
    my $is_first = 1;
    for my $ep4 (@ARGV) {
        my $agent = agent($ep4);
        my $objects = $agent->prepare_objects([\$message]);
        print_parts($objects) if $is_first;
        $is_first = 0;
        print "sign $ep4\n";
        print_signatures(eval { $agent->compute_sigs($objects) });
    }
}

# Returns a client that has the parameters of a server, but no server.
sub agent {
    my ($ep4) = @_;
    my $agent = Razor2::Client::Agent->new('razor-check');
    $agent->{conf} = { use_engines => [4, 8], debuglevel => 0, report_headers => 1 };
    $agent->{s} = { conf => { ep4 => $ep4 }, ip => 'none' };
    return $agent;
}

sub contents {
    my ($name) = @_;
    open my $file, '<:raw', $name or die "cannot read $name: $!\n";
    local $/;
    my $contents = <$file>;
    return defined $contents ? $contents : '';
}

sub print_parts {
    my ($objects) = @_;
    for my $part (map { @{ $_->{p} || [] } } @$objects) {
        print 'part ', index_of($part->{id}), ' ', sha1_hex(${ $part->{body} }), "\n";
    }
}

# The client's lines look like "1.0 e4: SIGNATURE, ep4: 7542-10".
sub print_signatures {
    my ($lines) = @_;
    return print "died $@\n" unless $lines;
    for my $line (@$lines) {
        $line =~ /^(\S+) (e[48]): ([^\s,]+)/ or die "cannot read: $line\n";
        print "$2 ", index_of($1), " $3\n";
    }
}

sub index_of { return (split /\./, $_[0])[1] }
